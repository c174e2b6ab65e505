#include "actors/worker_ticket.h"

#include <sys/mman.h>

#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>

#include "base/mapping.h"

namespace suture {
namespace {

constexpr size_t kMaxTicketBytes = 64 * 1024;

nlohmann::json scaling_json(const std::optional<RopeScalingOverride>& scaling) {
  if (!scaling) return nullptr;
  return {{"type", rope_scaling_name(scaling->scaling)},
          {"factor", scaling->factor},
          {"original", scaling->original_positions}};
}

// May throw nlohmann::json::exception. An unknown type counts as none.
std::optional<RopeScalingOverride> scaling_of(const nlohmann::json& json) {
  if (json.is_null()) return std::nullopt;
  RopeScalingOverride scaling;
  scaling.scaling =
      rope_scaling_of(json.at("type").get<std::string>()).value_or(RopeScaling::kNone);
  scaling.factor = json.at("factor").get<float>();
  scaling.original_positions = json.at("original").get<int64_t>();
  return scaling;
}

nlohmann::json projection_json(const ProjectionLoad& projection) {
  return {{"projector", projection.projector.string()},
          {"other", projection.other},
          {"other_path", projection.other_path.string()},
          {"rope_scaling", scaling_json(projection.rope_scaling)},
          {"rope_length", projection.rope_length},
          {"force", projection.force}};
}

// May throw nlohmann::json::exception.
ProjectionLoad projection_of(const nlohmann::json& json) {
  ProjectionLoad projection;
  projection.projector = json.at("projector").get<std::string>();
  projection.other = json.at("other").get<std::string>();
  projection.other_path = json.at("other_path").get<std::string>();
  projection.rope_scaling = scaling_of(json.at("rope_scaling"));
  projection.rope_length = json.at("rope_length").get<int64_t>();
  projection.force = json.at("force").get<bool>();
  return projection;
}

}  // namespace

Result<UniqueFd> write_ticket(const WorkerTicket& ticket) {
  const ModelLoad& load = ticket.load;
  std::map<std::string, std::string> vocabularies;
  for (const auto& [process, path] : load.vocabularies) vocabularies[process] = path.string();
  auto slave_projections = nlohmann::json::array();
  for (const ProjectionLoad& projection : load.slave_projections)
    slave_projections.push_back(projection_json(projection));
  const std::string text =
      nlohmann::json{
          {"broker", ticket.broker_address},
          {"secret", ticket.secret},
          {"port", ticket.coordinator_port},
          {"certificate_fd", ticket.certificate_fd},
          {"key_fd", ticket.key_fd},
          {"launcher", ticket.launcher},
          {"incarnation", load.incarnation},
          {"name", load.name},
          {"master", load.role == Role::kMaster},
          {"path", load.path.string()},
          {"device", load.device},
          {"threads", load.threads},
          {"max_seq_len", load.max_seq_len},
          {"max_sequences", load.max_sequences},
          {"vocabularies", vocabularies},
          {"norms_of", load.norms_of.string()},
          {"trace", load.trace},
          {"warm_up", load.warm_up},
          {"rope_length", load.rope_length},
          {"rope_reread", load.rope_crossing == RopeCrossing::kReread},
          {"rope_scaling", scaling_json(load.rope_scaling)},
          {"projection", load.projection ? projection_json(*load.projection) : nullptr},
          {"slave_projections", slave_projections},
      }
          .dump();
  UniqueFd fd(::memfd_create("suture-ticket", MFD_CLOEXEC));
  if (!fd.valid()) return fail_errno("cannot create a memory file", errno, "worker ticket");
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return fail_errno("cannot write a memory file", errno, "worker ticket");
  return fd;
}

Result<WorkerTicket> read_ticket(int fd) {
  std::string text(kMaxTicketBytes, '\0');
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  if (size < 0) return fail_errno("cannot read the ticket", errno, "worker ticket");
  text.resize(static_cast<size_t>(size));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  WorkerTicket ticket;
  try {
    ticket.broker_address = json.at("broker").get<std::string>();
    ticket.secret = json.at("secret").get<std::string>();
    ticket.coordinator_port = json.at("port").get<uint16_t>();
    ticket.certificate_fd = json.at("certificate_fd").get<int>();
    ticket.key_fd = json.at("key_fd").get<int>();
    ticket.launcher = json.at("launcher").get<pid_t>();
    ticket.load.incarnation = json.at("incarnation").get<uint64_t>();
    ticket.load.name = json.at("name").get<std::string>();
    ticket.load.role = json.at("master").get<bool>() ? Role::kMaster : Role::kSlave;
    ticket.load.path = json.at("path").get<std::string>();
    ticket.load.device = json.at("device").get<std::string>();
    ticket.load.threads = json.at("threads").get<int>();
    ticket.load.max_seq_len = json.at("max_seq_len").get<int64_t>();
    ticket.load.max_sequences = json.at("max_sequences").get<int32_t>();
    for (const auto& [process, path] :
         json.at("vocabularies").get<std::map<std::string, std::string>>())
      ticket.load.vocabularies[process] = path;
    ticket.load.norms_of = json.at("norms_of").get<std::string>();
    ticket.load.trace = json.at("trace").get<bool>();
    ticket.load.warm_up = json.at("warm_up").get<bool>();
    ticket.load.rope_length = json.at("rope_length").get<int64_t>();
    const bool reread = json.at("rope_reread").get<bool>();
    ticket.load.rope_crossing = reread ? RopeCrossing::kReread : RopeCrossing::kKeep;
    ticket.load.rope_scaling = scaling_of(json.at("rope_scaling"));
    if (const auto& projection = json.at("projection"); !projection.is_null())
      ticket.load.projection = projection_of(projection);
    for (const auto& projection : json.at("slave_projections"))
      ticket.load.slave_projections.push_back(projection_of(projection));
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorCode::kCorrupt, error.what(), "worker ticket",
                "workers are started by 'suture run' and 'suture launch', not by hand");
  }
  return ticket;
}

}  // namespace suture
