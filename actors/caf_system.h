// The CAF actor system of one process: message types, scheduler, TLS and connection watching.
#pragma once

#include <memory>

#include "actors/tls_identity.h"

namespace caf {
class actor_system;
}  // namespace caf

namespace suture {

// Owns the system and the configuration that it refers to.
class CafSystem {
 public:
  // Without an identity the system has no network at all (placement "in-process").
  // `scheduler_threads` 0 = CAF's default.
  CafSystem(const TlsIdentity* identity, int scheduler_threads);
  ~CafSystem();
  CafSystem(const CafSystem&) = delete;
  CafSystem& operator=(const CafSystem&) = delete;

  caf::actor_system& get();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace suture
