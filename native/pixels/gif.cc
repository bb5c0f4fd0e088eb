#include "decoders.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

namespace pixels {
namespace {

constexpr size_t kScreenHeader = 13;
constexpr uint8_t kExtension = 0x21;
constexpr uint8_t kFrame = 0x2c;
constexpr uint8_t kTrailer = 0x3b;
constexpr uint8_t kGraphicControl = 0xf9;
constexpr uint8_t kHasPalette = 0x80;
constexpr uint8_t kIsInterlaced = 0x40;
constexpr int kMostCodes = 4096;

/** Position and number of a palette's colours. Without a palette, colours are grey. */
struct Palette {
  size_t at = 0;
  size_t count = 0;
};

struct Frame {
  Size screen;
  Size size;
  int64_t x = 0;
  int64_t y = 0;
  bool is_interlaced = false;
  std::optional<uint8_t> transparent;
  Palette palette;
  /** Position of the compressed pixels: the width of the first codes, then blocks. */
  size_t pixels_at = 0;
};

Palette palette_at(size_t at, uint8_t flags) {
  return (flags & kHasPalette) == 0 ? Palette{} : Palette{at, size_t{2} << (flags & 7)};
}

/** Counts the steps to the first picture. A file of millions of empty blocks would block the event loop. */
class Steps {
 public:
  void add() {
    if (++count_ > kMost) throw UnreadablePicture("a GIF of more than 65,536 blocks before its picture; save it without metadata");
  }

 private:
  static constexpr int kMost = 65'536;
  int count_ = 0;
};

/** The position behind a row of blocks, each with its length in front. */
size_t after_blocks(const FileBytes& file, size_t at, Steps& steps) {
  while (const size_t length = file.u8(at)) {
    steps.add();
    at += 1 + length;
  }
  return at + 1;
}

Frame first_frame(const FileBytes& file) {
  Frame frame;
  frame.screen = {file.u16(6), file.u16(8)};
  const Palette of_all = palette_at(kScreenHeader, file.u8(10));
  size_t at = kScreenHeader + of_all.count * 3;
  for (Steps steps;; ++at) {
    steps.add();
    // Bytes between the blocks are ignored.
    const uint8_t kind = file.u8(at);
    if (kind == kTrailer) throw UnreadablePicture("a GIF without a picture");
    if (kind == kFrame) break;
    if (kind != kExtension) continue;
    if (file.u8(at + 1) == kGraphicControl && file.u8(at + 2) >= 4 && (file.u8(at + 3) & 1) != 0) {
      frame.transparent = file.u8(at + 6);
    }
    at = after_blocks(file, at + 2, steps) - 1;
  }
  frame.x = file.u16(at + 1);
  frame.y = file.u16(at + 3);
  frame.size = {file.u16(at + 5), file.u16(at + 7)};
  if (frame.size.width == 0 || frame.size.height == 0) throw UnreadablePicture("a GIF whose first picture has no pixels");
  frame.screen.width = std::max(frame.screen.width, frame.x + frame.size.width);
  frame.screen.height = std::max(frame.screen.height, frame.y + frame.size.height);
  const uint8_t flags = file.u8(at + 9);
  frame.is_interlaced = (flags & kIsInterlaced) != 0;
  const Palette own = palette_at(at + 10, flags);
  frame.palette = own.count > 0 ? own : of_all;
  frame.pixels_at = at + 10 + own.count * 3;
  return frame;
}

/** Reads codes of a growing number of bits from a row of blocks. */
class Codes {
 public:
  Codes(const FileBytes& file, size_t at) : file_(file), at_(at) {}

  int next(int bits) {
    while (count_ < bits) {
      if (left_ == 0) {
        left_ = file_.u8(at_++);
        if (left_ == 0) throw UnreadablePicture::damaged();
      }
      buffer_ |= uint32_t{file_.u8(at_++)} << count_;
      left_ -= 1;
      count_ += 8;
    }
    const int code = buffer_ & ((1 << bits) - 1);
    buffer_ >>= bits;
    count_ -= bits;
    return code;
  }

 private:
  const FileBytes& file_;
  size_t at_;
  size_t left_ = 0;
  uint32_t buffer_ = 0;
  int count_ = 0;
};

/** Decompresses the palette index of each pixel (LZW). */
std::vector<uint8_t> indices_of(const FileBytes& file, const Frame& frame) {
  const int first_bits = file.u8(frame.pixels_at);
  if (first_bits < 1 || first_bits > 8) throw UnreadablePicture::damaged();
  const int clear = 1 << first_bits;
  const int end = clear + 1;
  std::array<uint16_t, kMostCodes> prefix{};
  std::array<uint8_t, kMostCodes> last{};
  std::array<uint8_t, kMostCodes> reversed{};
  for (int code = 0; code < clear; ++code) last[code] = static_cast<uint8_t>(code);
  Codes codes(file, frame.pixels_at + 1);
  std::vector<uint8_t> indices;
  const size_t pixels = frame.size.width * frame.size.height;
  indices.reserve(pixels);
  int bits = first_bits + 1;
  int known = end + 1;
  int before = -1;
  uint8_t first = 0;
  while (indices.size() < pixels) {
    const int code = codes.next(bits);
    if (code == clear) {
      bits = first_bits + 1;
      known = end + 1;
      before = -1;
      continue;
    }
    if (code == end || code > known || (code == known && before < 0)) throw UnreadablePicture::damaged();
    if (before < 0 && code > end) throw UnreadablePicture::damaged();
    size_t length = 0;
    int rest = code;
    // The new code stands for the pixels of the code before, and the first of these pixels again.
    if (code == known) {
      reversed[length++] = first;
      rest = before;
    }
    for (; rest > end; rest = prefix[rest]) reversed[length++] = last[rest];
    first = last[rest];
    reversed[length++] = first;
    while (length > 0 && indices.size() < pixels) indices.push_back(reversed[--length]);
    if (before >= 0 && known < kMostCodes) {
      prefix[known] = static_cast<uint16_t>(before);
      last[known] = first;
      known += 1;
      if (known == 1 << bits && bits < 12) bits += 1;
    }
    before = code;
  }
  return indices;
}

/** The rows of an interlaced frame in the order of the file. */
std::vector<int64_t> order_of_rows(int64_t height, bool is_interlaced) {
  std::vector<int64_t> rows;
  const auto add = [&](int64_t first, int64_t step) {
    for (int64_t y = first; y < height; y += step) rows.push_back(y);
  };
  if (!is_interlaced) add(0, 1);
  else for (const auto& [first, step] : {std::pair(0, 8), {4, 8}, {2, 4}, {1, 2}}) add(first, step);
  return rows;
}

}  // namespace

bool is_gif(const FileBytes& file) { return file.begins_with("GIF87a") || file.begins_with("GIF89a"); }

Size gif_size(const FileBytes& file) { return first_frame(file).screen; }

Decoded read_gif(const FileBytes& file) {
  const Frame frame = first_frame(file);
  std::array<std::array<uint8_t, 4>, 256> colours;
  for (size_t i = 0; i < 256; ++i) {
    // Colours that a palette lacks are black, as in Pillow.
    const auto grey = static_cast<uint8_t>(frame.palette.count == 0 ? i : 0);
    colours[i] = {grey, grey, grey, 255};
    if (i < frame.palette.count) std::memcpy(colours[i].data(), file.part(frame.palette.at + 3 * i, 3).data(), 3);
  }
  if (frame.transparent) colours[*frame.transparent][3] = 0;
  const auto indices = indices_of(file, frame);
  Decoded whole = Decoded::of(frame.screen);
  const auto& around = colours[frame.transparent.value_or(0)];
  for (int64_t i = 0; i < frame.screen.width * frame.screen.height; ++i) std::memcpy(&whole.memory[i * 4], around.data(), 4);
  const uint8_t* index = indices.data();
  for (const int64_t y : order_of_rows(frame.size.height, frame.is_interlaced)) {
    uint8_t* to = whole.row(frame.y + y) + frame.x * 4;
    for (int64_t x = 0; x < frame.size.width; ++x, to += 4) std::memcpy(to, colours[*index++].data(), 4);
  }
  return whole;
}

}  // namespace pixels
