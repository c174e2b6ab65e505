// For tests of evaluations: topologies as plain data.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "actors/launch_spec.h"

namespace suture::eval_test {

inline ModelSpec model(const std::string& name, Role role, const std::string& path,
                       SlavePosition position = SlavePosition::kAligned) {
  ModelSpec spec;
  spec.name = name;
  spec.role = role;
  spec.path = spec.path_text = path;
  spec.fusion.position = position;
  return spec;
}

inline LaunchSpec topology(std::vector<ModelSpec> slaves) {
  LaunchSpec spec;
  spec.topology_path = "t.toml";
  spec.models = {model("m", Role::kMaster, "big")};
  spec.models[0].system = "Be brief.";
  spec.models.insert(spec.models.end(), slaves.begin(), slaves.end());
  return spec;
}

inline ModelSpec prefix(const std::string& name, const std::string& path = "small") {
  return model(name, Role::kSlave, path, SlavePosition::kPrefix);
}
inline ModelSpec aligned(const std::string& name, const std::string& path = "small") {
  return model(name, Role::kSlave, path, SlavePosition::kAligned);
}

}  // namespace suture::eval_test
