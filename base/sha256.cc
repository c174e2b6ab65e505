#include "base/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "base/check.h"

namespace suture {

struct Sha256::State {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(),
                                                                  &EVP_MD_CTX_free};
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  SUTURE_CHECK(state_->context != nullptr, "no memory for a digest");
  const int ok = EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr);
  SUTURE_CHECK(ok == 1, "EVP_DigestInit_ex returned {}", ok);
}

Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  const int ok = EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size());
  SUTURE_CHECK(ok == 1, "EVP_DigestUpdate returned {}", ok);
}

void Sha256::update(std::string_view text) { update(std::as_bytes(std::span(text))); }

std::string Sha256::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  const int ok = EVP_DigestFinal_ex(state_->context.get(), digest.data(), &size);
  SUTURE_CHECK(ok == 1 && size == 32, "EVP_DigestFinal_ex returned {}, {} bytes", ok, size);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace suture
