// The certificate of one launch: made when it starts, its own authority, known to its processes
// only. Both sides of every CAF connection must show it.
#pragma once

#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace suture {

// PEM texts in memory files that have no name in the file system.
class TlsIdentity {
 public:
  // A new P-256 key with a self-signed certificate.
  static Result<TlsIdentity> create();
  // Memory files inherited from the launcher.
  TlsIdentity(UniqueFd certificate, UniqueFd key);

  int certificate_fd() const { return certificate_.get(); }
  int key_fd() const { return key_.get(); }
  // Paths under which this process can open them.
  std::string certificate_path() const;
  std::string key_path() const;

 private:
  UniqueFd certificate_;
  UniqueFd key_;
};

}  // namespace suture
