#include "decoders.h"

#include <cstring>
#include <stdexcept>

namespace pixels {
namespace {

constexpr size_t kSignature = 8;
constexpr size_t kChunkHeader = 8;
constexpr size_t kChunkEnd = 4;
constexpr uint32_t kData = 0x49444154;  // IDAT
constexpr uint8_t kRgba = 6;

/** Throws for a file that sconce cannot read. Only another version of Bun can cause this, not an input. */
[[noreturn]] void unexpected() {
  throw std::runtime_error(
      "Bun.Image wrote a PNG of level 0 in another way than sconce reads; use the Bun version of package.json");
}

uint32_t big_endian(const uint8_t* at) {
  return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | at[3];
}

/** Reads the content of all IDAT chunks as one stream. */
class DataStream {
 public:
  DataStream(const uint8_t* png, size_t size) : next_(png + kSignature), end_(png + size) {}

  /** Copies the next `count` bytes to `to`, which may be an earlier place in the same file. */
  void read(uint8_t* to, size_t count) {
    while (count > 0) {
      if (left_ == 0) enter_chunk();
      const size_t part = std::min(count, left_);
      std::memmove(to, at_, part);
      to += part;
      at_ += part;
      left_ -= part;
      count -= part;
    }
  }

 private:
  void enter_chunk() {
    while (left_ == 0) {
      const size_t there = end_ - next_;
      if (there < kChunkHeader + kChunkEnd) unexpected();
      const size_t length = big_endian(next_);
      if (length > there - kChunkHeader - kChunkEnd) unexpected();
      at_ = next_ + kChunkHeader;
      if (big_endian(next_ + 4) == kData) left_ = length;
      next_ = at_ + length + kChunkEnd;
    }
  }

  const uint8_t* next_;
  const uint8_t* end_;
  const uint8_t* at_ = nullptr;
  size_t left_ = 0;
};

}  // namespace

Raster read_stored_png(uint8_t* png, size_t size) {
  if (size < 33 || png[24] != 8 || png[25] != kRgba || png[28] != 0) unexpected();
  const size_t width = big_endian(png + 16);
  const size_t height = big_endian(png + 20);
  const size_t row_bytes = width * 4 + 1;
  DataStream stream(png, size);
  uint8_t header[5];
  stream.read(header, 2);
  size_t count = 0;
  do {
    stream.read(header, 5);
    const size_t length = header[1] | header[2] << 8;
    if (header[0] > 1) unexpected();
    stream.read(png + count, length);
    count += length;
  } while (header[0] == 0);
  if (count != row_bytes * height) unexpected();
  for (size_t at = 0; at < count; at += row_bytes) {
    if (png[at] != 0) unexpected();
  }
  return {static_cast<int64_t>(width), static_cast<int64_t>(height), png + 1, row_bytes};
}

}  // namespace pixels
