#include "launcher/attach.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <future>
#include <list>
#include <mutex>
#include <thread>

#include "launcher/answer_json.h"
#include "launcher/command.h"
#include "launcher/line_socket.h"

namespace suture {
namespace {

constexpr int kLookMs = 100;  // how often a busy connection looks whether its client is there

Result<std::filesystem::path> run_time_folder() {
  const char* base = std::getenv("XDG_RUNTIME_DIR");
  const std::filesystem::path folder =
      base != nullptr && *base != '\0'
          ? std::filesystem::path(base) / "suture"
          : std::filesystem::path(fmt::format("/tmp/suture-{}", ::geteuid()));
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno("cannot create the run-time folder", errno, folder.string(),
                      "set XDG_RUNTIME_DIR to a folder of your own");
  struct stat info {};
  if (::lstat(folder.c_str(), &info) != 0)
    return fail_errno("cannot look at the run-time folder", errno, folder.string());
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 077) != 0)
    return fail(ErrorCode::kPermission, "the run-time folder is not this user's alone",
                folder.string(), "remove it, or set XDG_RUNTIME_DIR to a folder of your own");
  return folder;
}

Status check_name(const std::string& name) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  if (!name.empty() && name.size() <= 63 && name.front() != '.' &&
      name.find_first_not_of(kAllowed) == std::string::npos)
    return {};
  return fail(ErrorCode::kInvalidArgument,
              "a launch's name has 1 to 63 letters, digits, '_', '-' or '.', and does not "
              "start with '.'",
              name, "give another with --name");
}

Result<sockaddr_un> socket_address(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = path.string();
  if (text.size() >= sizeof address.sun_path)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a socket's path has at most {} bytes", sizeof address.sun_path - 1),
                text, "give a shorter --name");
  std::memcpy(address.sun_path, text.c_str(), text.size() + 1);
  return address;
}

bool same_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

// Answers one question; watches meanwhile whether the client is still there.
Status serve_question(LineSocket& socket, const Asker& asker, const nlohmann::json& json,
                      const std::atomic<bool>& stopping) {
  const auto options = ask_options_from_json(json);
  if (!options) return socket.send({{"error", error_json(options.error())}});
  std::atomic<bool> cancelled = false;
  auto answering = std::async(std::launch::async, [&] {
    const auto on_text = [&](std::string_view text) {
      if (!socket.send({{"piece", text}})) cancelled.store(true);
    };
    return asker(*options, on_text, cancelled);
  });
  while (answering.wait_for(std::chrono::milliseconds(kLookMs)) != std::future_status::ready) {
    pollfd poll_fd{socket.fd(), POLLRDHUP, 0};
    const bool hung_up =
        ::poll(&poll_fd, 1, 0) > 0 && (poll_fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
    if (hung_up || stopping.load()) cancelled.store(true);
  }
  const Result<Answer> answer = answering.get();
  if (!answer) return socket.send({{"error", error_json(answer.error())}});
  return socket.send({{"answer", to_json(*answer)}});
}

Status serve_request(LineSocket& socket, const AttachServices& services, const nlohmann::json& json,
                     const std::atomic<bool>& stopping) {
  if (json.contains("hello")) return socket.send({{"defaults", to_json(services.defaults)}});
  return serve_question(socket, services.ask, json, stopping);
}

void serve_connection(UniqueFd fd, const AttachServices& services,
                      const std::atomic<bool>& stopping) {
  LineSocket socket(std::move(fd));
  while (!stopping.load()) {
    const auto line = socket.receive(kLookMs);
    if (!line) {
      if (line.error().code == ErrorCode::kCorrupt)
        static_cast<void>(socket.send({{"error", error_json(line.error())}}));
      return;
    }
    if (line->has_value() && !serve_request(socket, services, **line, stopping)) return;
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
  struct Connection {
    std::atomic<bool> ended = false;
    std::thread thread;
  };
  std::list<Connection> connections;  // accepting thread, then the destructor
  std::thread acceptor;

  void accept_all();
  void add_connection(UniqueFd fd);
};

void AttachServer::State::accept_all() {
  pollfd polled[2] = {{listener.get(), POLLIN, 0}, {stop.get(), POLLIN, 0}};
  while (true) {
    if (::poll(polled, 2, -1) < 0 && errno != EINTR) return;
    if (polled[1].revents != 0) return;
    UniqueFd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd.valid()) continue;
    if (!same_user(fd.get())) {
      spdlog::warn("attach socket: another user was refused");
      continue;
    }
    add_connection(std::move(fd));
  }
}

void AttachServer::State::add_connection(UniqueFd fd) {
  connections.remove_if([](Connection& connection) {
    if (!connection.ended.load()) return false;
    connection.thread.join();
    return true;
  });
  Connection& added = connections.emplace_back();
  added.thread = std::thread([this, &added, fd = std::move(fd)]() mutable {
    serve_connection(std::move(fd), services, stopping);
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

Result<std::filesystem::path> attach_socket_path(const std::string& name) {
  SUTURE_RETURN_IF_ERROR(check_name(name));
  SUTURE_ASSIGN_OR_RETURN(const std::filesystem::path folder, run_time_folder());
  return folder / (name + ".sock");
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
  state->listener.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::bind(state->listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
          0 ||
      ::listen(state->listener.get(), 64) != 0)
    return fail_errno("cannot listen", errno, state->path.string());
  state->stop.reset(::eventfd(0, EFD_CLOEXEC));
  State& running = *state;
  state->acceptor = std::thread([&running] { running.accept_all(); });
  return std::unique_ptr<AttachServer>(new AttachServer(std::move(state)));
}

namespace {

Result<UniqueFd> connect_to(const std::string& name) {
  SUTURE_ASSIGN_OR_RETURN(const std::filesystem::path path, attach_socket_path(name));
  SUTURE_ASSIGN_OR_RETURN(const sockaddr_un address, socket_address(path));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fail_errno("cannot create a socket", errno, "attach");
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail(ErrorCode::kNotFound, fmt::format("no launch named '{}' is running", name),
                path.string(), "start one with 'suture launch TOPOLOGY --name " + name + "'");
  return fd;
}

Result<Answer> ask_over(LineSocket& socket, const AskOptions& options,
                        const std::function<void(std::string_view)>& on_text,
                        const std::atomic<bool>& cancelled) {
  SUTURE_RETURN_IF_ERROR(socket.send(to_json(options)));
  while (true) {
    if (cancelled.load())
      return fail(ErrorCode::kCancelled, "interrupted; the launch goes on", "attach");
    SUTURE_ASSIGN_OR_RETURN(const auto line, socket.receive(kLookMs));
    if (!line) continue;
    if (line->contains("answer")) return answer_from_json(line->at("answer"));
    if (line->contains("error")) {
      SUTURE_ASSIGN_OR_RETURN(Error error, error_from_json(line->at("error")));
      return tl::unexpected<Error>(std::move(error));
    }
    const auto piece = line->find("piece");
    if (piece == line->end() || !piece->is_string())
      return fail(ErrorCode::kCorrupt, "neither piece, answer nor error", "attach socket");
    on_text(piece->get<std::string>());
  }
}

// The next line, which is an error if the launch says so.
Result<nlohmann::json> next_line(LineSocket& socket) {
  SUTURE_ASSIGN_OR_RETURN(const auto line, socket.receive(-1));
  const nlohmann::json value = line.value_or(nlohmann::json());
  if (!value.contains("error")) return value;
  SUTURE_ASSIGN_OR_RETURN(Error error, error_from_json(value.at("error")));
  return tl::unexpected<Error>(std::move(error));
}

Result<AskOptions> ask_for_defaults(const std::string& name) {
  SUTURE_ASSIGN_OR_RETURN(UniqueFd fd, connect_to(name));
  LineSocket socket(std::move(fd));
  SUTURE_RETURN_IF_ERROR(socket.send({{"hello", true}}));
  SUTURE_ASSIGN_OR_RETURN(const nlohmann::json line, next_line(socket));
  return ask_options_from_json(line.contains("defaults") ? line["defaults"] : line);
}

}  // namespace

Result<Attached> attach(const std::string& name) {
  Attached attached;
  SUTURE_ASSIGN_OR_RETURN(attached.defaults, ask_for_defaults(name));
  attached.ask = Asker([name](const AskOptions& options, const auto& on_text,
                              const std::atomic<bool>& cancelled) -> Result<Answer> {
    SUTURE_ASSIGN_OR_RETURN(UniqueFd fd, connect_to(name));
    LineSocket socket(std::move(fd));
    return ask_over(socket, options, on_text, cancelled);
  });
  return attached;
}

}  // namespace suture
