// What a projector file says about itself, for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "fusion/projector.h"

namespace suture {

// Models, texts, how well each layer's maps do, what was measured with it.
std::string projector_report(const Projector& projector);
nlohmann::json projector_json(const Projector& projector);

}  // namespace suture
