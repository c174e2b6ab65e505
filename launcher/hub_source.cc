#include <curl/curl.h>
#include <fmt/format.h>

#include "launcher/model_source.h"

namespace suture {
namespace {

using Curl = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;

// One transfer: what libcurl's callbacks work on.
struct Transfer {
  CURL* curl = nullptr;
  PartialFile* file = nullptr;
  uint64_t total = 0;
  const ProgressReport* report = nullptr;
  bool started = false;
  Status status;
};

constexpr long kWholeFile = 200;  // HTTP: the range that was asked for is ignored

size_t on_data(char* data, size_t size, size_t count, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  if (!transfer.started) {
    transfer.started = true;
    long code = 0;
    curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &code);
    if (code == kWholeFile && transfer.file->size() > 0)
      transfer.status = transfer.file->restart_at(0);
  }
  const auto bytes = std::as_bytes(std::span(data, size * count));
  if (transfer.status) transfer.status = transfer.file->append(bytes);
  if (!transfer.status) return 0;  // libcurl stops with CURLE_WRITE_ERROR
  if (*transfer.report) (*transfer.report)(transfer.file->size(), transfer.total);
  return size * count;
}

class HubSource : public ModelSource {
 public:
  HubSource(std::string url, std::string protocols)
      : url_(std::move(url)), protocols_(std::move(protocols)) {}

  std::string name() const override { return "model hub"; }

  Status fetch(const ModelEntry& entry, PartialFile& file, const ProgressReport& report) override {
    if (file.size() == entry.bytes) return file.restart_at(file.size());
    const std::string url = url_.empty() ? entry.hub_url() : url_;
    const Curl curl(curl_easy_init(), &curl_easy_cleanup);
    if (curl == nullptr) return fail(ErrorCode::kOutOfMemory, "libcurl could not be started");
    SUTURE_RETURN_IF_ERROR(file.restart_at(file.size()));
    Transfer transfer{curl.get(), &file, entry.bytes, &report, false, {}};
    char message[CURL_ERROR_SIZE] = "";
    set_options(curl.get(), url, transfer, message);
    const CURLcode code = curl_easy_perform(curl.get());
    if (!transfer.status) return transfer.status;
    if (code == CURLE_OK) return {};
    return fail(ErrorCode::kIo, *message != '\0' ? message : curl_easy_strerror(code), url);
  }

 private:
  void set_options(CURL* curl, const std::string& url, Transfer& transfer, char* message) const {
    curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, protocols_.c_str());
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, protocols_.c_str());
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 5L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 5L);
    // A transfer that stands still for 30 s is given up.
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 30L);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "suture");
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, message);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &on_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
    if (transfer.file->size() > 0)
      curl_easy_setopt(curl, CURLOPT_RANGE, fmt::format("{}-", transfer.file->size()).c_str());
  }

  std::string url_;
  std::string protocols_;
};

}  // namespace

std::unique_ptr<ModelSource> make_hub_source(std::string url, std::string protocols) {
  return std::make_unique<HubSource>(std::move(url), std::move(protocols));
}

}  // namespace suture
