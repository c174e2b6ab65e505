// Owners of OpenSSL objects: std::unique_ptr<X509, FreeWith<X509_free>>.
#pragma once

namespace suture {

template <auto Free>
struct FreeWith {
  template <typename T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};

}  // namespace suture
