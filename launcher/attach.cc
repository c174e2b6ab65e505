#include "launcher/attach.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <future>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "bus/warning_limit.h"
#include "launcher/answer_json.h"
#include "launcher/attach_socket.h"
#include "launcher/command.h"
#include "launcher/line_socket.h"
#include "launcher/snapshot_json.h"

namespace suture {
namespace {

constexpr int kLookMs = 100;  // how often a busy connection looks whether its client is there

constexpr size_t kMaxClients = 256;            // a thread and some descriptors each
constexpr size_t kMaxQuestionBytes = 4 << 20;  // of a client's line
constexpr int kAcceptPauseMs = 1000;           // when no descriptor is left

// Who connected; nothing if that cannot be told.
std::optional<ucred> client_of(int fd) {
  ucred client{};
  socklen_t size = sizeof client;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &client, &size) != 0) return std::nullopt;
  return client;
}

// Text on its way to a client. Whoever makes it must never wait for a client that does not read.
class Outbox {
 public:
  Outbox() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  void add(std::string_view text) {
    {
      const std::lock_guard lock(mutex_);
      text_ += text;
    }
    wake();
  }
  std::string take() {
    eventfd_t count = 0;
    ::eventfd_read(wake_.get(), &count);
    const std::lock_guard lock(mutex_);
    return std::exchange(text_, {});
  }
  void wake() const { ::eventfd_write(wake_.get(), 1); }
  int wake_fd() const { return wake_.get(); }

 private:
  UniqueFd wake_;
  std::mutex mutex_;
  std::string text_;  // guarded by mutex_
};

// One client, served by a thread of its own. Its conversation ends with it.
class ClientConnection {
 public:
  ClientConnection(UniqueFd fd, uint64_t client, const AttachServices& services,
                   WarningLimit& warnings, const std::atomic<bool>& stopping)
      : socket_(std::move(fd), {.max_bytes = kMaxQuestionBytes}),
        client_(client),
        services_(services),
        warnings_(warnings),
        stopping_(stopping) {}
  ~ClientConnection() { end_conversation(); }
  ClientConnection(const ClientConnection&) = delete;
  ClientConnection& operator=(const ClientConnection&) = delete;

  void serve();

 private:
  Status serve_line(const nlohmann::json& line);
  Status begin_conversation(const nlohmann::json& history);
  void end_conversation();
  Status ask(const nlohmann::json& question);
  void watch_client(std::atomic<bool>& cancelled);
  void send_pieces(Outbox& outbox);
  Status refuse(const Error& error) const;

  LineSocket socket_;
  const uint64_t client_;  // unique in the launch
  const AttachServices& services_;
  WarningLimit& warnings_;
  const std::atomic<bool>& stopping_;
  uint64_t conversation_ = 0;           // 0 = none
  std::optional<nlohmann::json> next_;  // came while a question was answered
  bool gone_ = false;                   // the client has hung up
};

void ClientConnection::serve() {
  while (!stopping_.load() && !gone_) {
    if (next_) {
      if (!serve_line(*std::exchange(next_, {}))) return;
      continue;
    }
    const auto line = socket_.receive(kLookMs);
    if (!line) {
      if (line.error().code == ErrorCode::kCorrupt) static_cast<void>(refuse(line.error()));
      return;
    }
    if (line->has_value() && !serve_line(**line)) return;
  }
}

Status ClientConnection::serve_line(const nlohmann::json& line) {
  if (line.contains("hello")) return socket_.send({{"defaults", to_json(services_.defaults)}});
  if (line.contains("snapshot")) return socket_.send({{"snapshot", to_json(services_.watch())}});
  if (line.contains("conversation")) return begin_conversation(line["conversation"]);
  if (line.contains("cancel")) return {};  // the answer was complete already
  return ask(line);
}

Status ClientConnection::begin_conversation(const nlohmann::json& history) {
  const auto turns = chat_turns_from_json(history);
  if (!turns) return refuse(turns.error());
  const auto opened = services_.open_conversation(*turns);
  if (!opened) return socket_.send({{"error", error_json(opened.error())}});
  end_conversation();
  conversation_ = opened->id;
  return socket_.send({{"tokens", opened->tokens}});
}

void ClientConnection::end_conversation() {
  if (conversation_ != 0) services_.close_conversation(std::exchange(conversation_, 0));
}

// Answers one question; watches meanwhile whether the client is still there and wants it.
Status ClientConnection::ask(const nlohmann::json& question) {
  auto options = ask_options_from_json(question);
  if (!options) return refuse(options.error());
  options->conversation = conversation_;
  options->client = client_;
  std::atomic<bool> cancelled = false;
  std::atomic<bool> answered = false;
  Outbox outbox;
  auto answering = std::async(std::launch::async, [&] {
    auto answer = services_.ask(
        *options, [&outbox](std::string_view text) { outbox.add(text); }, cancelled);
    answered.store(true);
    outbox.wake();
    return answer;
  });
  while (!answered.load() &&
         answering.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    pollfd polled[2] = {{gone_ ? -1 : socket_.fd(), POLLIN | POLLRDHUP, 0},
                        {outbox.wake_fd(), POLLIN, 0}};
    ::poll(polled, 2, kLookMs);
    if (!gone_) watch_client(cancelled);
    send_pieces(outbox);
    if (gone_ || stopping_.load()) cancelled.store(true);
  }
  const Result<Answer> answer = answering.get();
  send_pieces(outbox);
  if (gone_) return {};
  if (!answer) return socket_.send({{"error", error_json(answer.error())}});
  return socket_.send({{"answer", to_json(*answer)}});
}

void ClientConnection::send_pieces(Outbox& outbox) {
  const std::string text = outbox.take();
  if (text.empty() || gone_) return;
  const Status sent = socket_.send({{"piece", text}});
  if (sent) return;
  gone_ = true;
  if (sent.error().code == ErrorCode::kTimeout)
    warnings_.warn("client dropped", fmt::format("client {}: {}", client_, sent.error().what));
}

Status ClientConnection::refuse(const Error& error) const {
  warnings_.warn("refused message", fmt::format("client {}: {}", client_, error.what));
  return socket_.send({{"error", error_json(error)}});
}

// What the client has said so far; a second question waits, a third is too much.
void ClientConnection::watch_client(std::atomic<bool>& cancelled) {
  while (true) {
    auto line = socket_.receive(0);
    if (line && !line->has_value()) return;
    if (line && (*line)->contains("cancel")) {
      cancelled.store(true);
    } else if (line && !next_) {
      next_ = std::move(**line);
    } else {
      gone_ = true;
      return;
    }
  }
}

}  // namespace

struct AttachServer::State {
  AttachServices services;
  std::filesystem::path path;
  UniqueFd lock;  // held as long as the name is taken
  UniqueFd listener;
  UniqueFd stop;  // eventfd that ends the accepting thread
  std::atomic<bool> stopping = false;
  WarningLimit warnings{"attach socket"};
  struct Connection {
    std::atomic<bool> ended = false;
    std::thread thread;
  };
  std::list<Connection> connections;  // accepting thread, then the destructor
  uint64_t next_client = 1;           // accepting thread
  std::thread acceptor;

  void accept_all();
  void admit(UniqueFd fd);
  void add_connection(UniqueFd fd);
};

void AttachServer::State::accept_all() {
  pollfd polled[2] = {{listener.get(), POLLIN, 0}, {stop.get(), POLLIN, 0}};
  while (true) {
    if (::poll(polled, 2, -1) < 0 && errno != EINTR) return;
    if (polled[1].revents != 0) return;
    UniqueFd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (fd.valid()) {
      admit(std::move(fd));
    } else if (errno != EINTR && errno != EAGAIN && errno != ECONNABORTED) {
      warnings.warn("refused connection", fail_errno("cannot accept", errno).value().what);
      ::poll(&polled[1], 1, kAcceptPauseMs);
    }
  }
}

void AttachServer::State::admit(UniqueFd fd) {
  connections.remove_if([](Connection& connection) {
    if (!connection.ended.load()) return false;
    connection.thread.join();
    return true;
  });
  const auto client = client_of(fd.get());
  if (!client || client->uid != ::geteuid()) {
    const auto who = client ? fmt::format("process {} of user {}", client->pid, client->uid) : "?";
    warnings.warn("refused connection", who);
  } else if (connections.size() >= kMaxClients) {
    const auto full = fail(ErrorCode::kBusy, fmt::format("{} clients are attached", kMaxClients),
                           "attach socket", "end some of them");
    warnings.warn("refused connection", full.value().what);
    static_cast<void>(LineSocket(std::move(fd)).send({{"error", error_json(full.value())}}));
  } else {
    add_connection(std::move(fd));
  }
}

void AttachServer::State::add_connection(UniqueFd fd) {
  Connection& added = connections.emplace_back();
  added.thread = std::thread([this, &added, client = next_client++, fd = std::move(fd)]() mutable {
    ClientConnection(std::move(fd), client, services, warnings, stopping).serve();
    added.ended.store(true);
  });
}

AttachServer::AttachServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

AttachServer::~AttachServer() {
  state_->stopping.store(true);
  const uint64_t one = 1;
  static_cast<void>(::write(state_->stop.get(), &one, sizeof one));
  if (state_->acceptor.joinable()) state_->acceptor.join();
  for (State::Connection& connection : state_->connections) connection.thread.join();
  ::unlink(state_->path.c_str());
  ::unlink(std::filesystem::path(state_->path).replace_extension(".lock").c_str());
}

Result<std::unique_ptr<AttachServer>> AttachServer::start(const std::string& name,
                                                          AttachServices services) {
  auto state = std::make_unique<State>();
  state->services = std::move(services);
  SUTURE_ASSIGN_OR_RETURN(state->path, attach_socket_path(name));
  SUTURE_ASSIGN_OR_RETURN(const sockaddr_un address, socket_address(state->path));
  const auto lock_path = std::filesystem::path(state->path).replace_extension(".lock");
  state->lock.reset(::open(lock_path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  if (!state->lock.valid()) return fail_errno("cannot create", errno, lock_path.string());
  if (::flock(state->lock.get(), LOCK_EX | LOCK_NB) != 0)
    return fail(ErrorCode::kBusy, fmt::format("a launch named '{}' is running", name), "launch",
                "give this one another name with --name");
  ::unlink(state->path.c_str());
  state->listener.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::bind(state->listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
          0 ||
      ::listen(state->listener.get(), 64) != 0)
    return fail_errno("cannot listen", errno, state->path.string());
  state->stop.reset(::eventfd(0, EFD_CLOEXEC));
  State& running = *state;
  state->acceptor = std::thread([&running] { running.accept_all(); });
  return std::unique_ptr<AttachServer>(new AttachServer(std::move(state)));
}

}  // namespace suture
