// The bytes of a picture file, and the errors of a file that cannot be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

namespace pixels {

/** A file that cannot be read. The message continues "The file is …". */
class UnreadablePicture : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;

  static UnreadablePicture damaged() { return UnreadablePicture("an image that is damaged or cut off"); }
};

/** Little-endian numbers of a file. Every read throws UnreadablePicture beyond the end of the file. */
class FileBytes {
 public:
  explicit FileBytes(std::span<const uint8_t> file) : file_(file) {}

  size_t size() const { return file_.size(); }

  /** `count` bytes from position `at`. */
  std::span<const uint8_t> part(size_t at, size_t count) const {
    if (at > file_.size() || count > file_.size() - at) throw UnreadablePicture::damaged();
    return file_.subspan(at, count);
  }

  bool begins_with(const std::string& text) const {
    return file_.size() >= text.size() && std::equal(text.begin(), text.end(), file_.begin());
  }

  uint8_t u8(size_t at) const { return part(at, 1)[0]; }
  uint32_t u16(size_t at) const { return little_endian(part(at, 2)); }
  uint32_t u32(size_t at) const { return little_endian(part(at, 4)); }

 private:
  static uint32_t little_endian(std::span<const uint8_t> bytes) {
    uint32_t value = 0;
    for (size_t i = 0; i < bytes.size(); ++i) value |= uint32_t{bytes[i]} << (8 * i);
    return value;
  }

  std::span<const uint8_t> file_;
};

}  // namespace pixels
