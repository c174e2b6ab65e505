#include "actors/tls_identity.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <sys/mman.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "actors/openssl_ptr.h"

namespace suture {
namespace {

using KeyPtr = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, FreeWith<X509_free>>;
using BioPtr = std::unique_ptr<BIO, FreeWith<BIO_free_all>>;

constexpr long kLifetimeSeconds = 10L * 365 * 24 * 3600;  // outlives any launch

tl::unexpected<Error> openssl_failure(const char* what) {
  return fail(ErrorCode::kIo, what, "TLS identity", "check the OpenSSL installation");
}

Result<CertificatePtr> self_signed(EVP_PKEY* key) {
  CertificatePtr certificate(X509_new());
  uint64_t serial = 0;
  if (!certificate || RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) != 1)
    return openssl_failure("no certificate could be made");
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), serial >> 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kLifetimeSeconds);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME* name = X509_get_subject_name(certificate.get());
  const auto* common_name = reinterpret_cast<const unsigned char*>("suture launch");
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, common_name, -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  if (X509_sign(certificate.get(), key, EVP_sha256()) == 0)
    return openssl_failure("the certificate could not be signed");
  return certificate;
}

Result<UniqueFd> memory_file(const char* name, BIO* text) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(text, &data);
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return fail_errno("cannot create a memory file", errno, name);
  if (::write(fd.get(), data, static_cast<size_t>(size)) != size)
    return fail_errno("cannot write a memory file", errno, name);
  return fd;
}

}  // namespace

TlsIdentity::TlsIdentity(UniqueFd certificate, UniqueFd key)
    : certificate_(std::move(certificate)), key_(std::move(key)) {}

Result<TlsIdentity> TlsIdentity::create() {
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (!key) return openssl_failure("no key could be made");
  SUTURE_ASSIGN_OR_RETURN(const CertificatePtr certificate, self_signed(key.get()));
  const BioPtr certificate_text(BIO_new(BIO_s_mem()));
  const BioPtr key_text(BIO_new(BIO_s_mem()));
  if (!certificate_text || !key_text ||
      PEM_write_bio_X509(certificate_text.get(), certificate.get()) != 1 ||
      PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) !=
          1)
    return openssl_failure("the certificate could not be written");
  SUTURE_ASSIGN_OR_RETURN(UniqueFd certificate_fd,
                          memory_file("suture-certificate", certificate_text.get()));
  SUTURE_ASSIGN_OR_RETURN(UniqueFd key_fd, memory_file("suture-key", key_text.get()));
  return TlsIdentity(std::move(certificate_fd), std::move(key_fd));
}

std::string TlsIdentity::certificate_path() const {
  return fmt::format("/proc/self/fd/{}", certificate_.get());
}

std::string TlsIdentity::key_path() const { return fmt::format("/proc/self/fd/{}", key_.get()); }

}  // namespace suture
