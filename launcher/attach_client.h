// The other end of a launch's socket (launcher/attach.h).
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "launcher/attach.h"
#include "launcher/chat_backend.h"

namespace suture {

struct Attached {
  Asker ask;  // each request makes a connection of its own
  AskOptions defaults;
};

// kNotFound if no launch of that name lives.
Result<Attached> attach(const std::string& name);

// A conversation that the launch keeps until the object is destroyed.
Result<std::unique_ptr<ChatBackend>> attach_chat(const std::string& name);

}  // namespace suture
