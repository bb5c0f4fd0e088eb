#include "decoders.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

namespace pixels {
namespace {

// Header sizes in bytes, and compressions (Microsoft, "Bitmap Storage"; IBM, "OS/2 Bitmap File Format").
constexpr size_t kFileHeader = 14;
constexpr uint32_t kOs2 = 12;
constexpr uint32_t kOs2Second = 64;
constexpr uint32_t kInfo = 40;
constexpr uint32_t kWithMasks = 52;
constexpr uint32_t kWithAlphaMask = 56;
constexpr uint32_t kLargestHeader = 124;
enum Compression : uint32_t { kNone = 0, kRle8 = 1, kRle4 = 2, kMasks = 3, kJpeg = 4, kPng = 5, kAlphaMasks = 6 };

using Colour = std::array<uint8_t, 4>;

struct Header {
  Size size;
  bool is_top_down = false;
  uint32_t bits = 0;
  uint32_t compression = kNone;
  /** Bit masks of red, green, blue and alpha; of pixels without a palette. */
  std::array<uint32_t, 4> masks{};
  std::vector<Colour> palette;
  /** Position of the pixels in the file. */
  size_t pixels_at = 0;
};

std::array<uint32_t, 4> masks_of(const FileBytes& file, uint32_t header_size, const Header& header) {
  const bool is_16_bit = header.bits == 16;
  if (header.compression == kNone) {
    if (is_16_bit) return {0x7c00, 0x3e0, 0x1f, 0};
    return {0xff0000, 0xff00, 0xff, 0};
  }
  std::array<uint32_t, 4> masks{};
  const bool has_alpha = header_size >= kWithAlphaMask || (header_size < kWithMasks && header.compression == kAlphaMasks);
  for (size_t i = 0; i < (has_alpha ? 4 : 3); ++i) masks[i] = file.u32(kFileHeader + kInfo + 4 * i);
  if (masks == std::array<uint32_t, 4>{} && header.bits == 32) return {0xff0000, 0xff00, 0xff, 0xff000000};
  if (masks[0] == 0 || masks[1] == 0 || masks[2] == 0) throw UnreadablePicture("a BMP without bit masks of its colours");
  return masks;
}

/** The palette's first 256 colours. Colours that it lacks are black, as in Pillow. */
std::vector<Colour> palette_of(const FileBytes& file, size_t at, size_t count, size_t entry) {
  std::vector<Colour> palette(256, Colour{0, 0, 0, 255});
  for (size_t i = 0; i < std::min<size_t>(count, 256); ++i) {
    const auto bgr = file.part(at + i * entry, 3);
    palette[i] = {bgr[2], bgr[1], bgr[0], 255};
  }
  return palette;
}

void check_compression(const Header& header, uint32_t header_size) {
  const auto& [bits, compression] = std::pair(header.bits, header.compression);
  const std::string variant = "a BMP with compression " + std::to_string(compression);
  if (header_size == kOs2Second && compression >= kMasks) throw UnreadablePicture(variant + " of OS/2, which is not supported");
  if (compression == kJpeg || compression == kPng) {
    throw UnreadablePicture(std::string("a BMP that contains a ") + (compression == kJpeg ? "JPEG" : "PNG") + "; send that file");
  }
  const bool is_known = compression == kNone || (compression == kRle8 && bits == 8) || (compression == kRle4 && bits == 4) ||
                        ((compression == kMasks || compression == kAlphaMasks) && bits >= 16);
  if (!is_known) throw UnreadablePicture(variant + " and " + std::to_string(bits) + " bits a pixel, which is not supported");
}

Header header_of(const FileBytes& file) {
  const uint32_t header_size = file.u32(kFileHeader);
  const bool is_os2 = header_size == kOs2;
  if (!is_os2 && (header_size < 16 || header_size > kLargestHeader)) {
    throw UnreadablePicture("a BMP with a header of " + std::to_string(header_size) + " bytes, which is not supported");
  }
  // Short headers omit the last fields, which are then 0.
  const auto field = [&](size_t at) { return at + 4 <= header_size ? file.u32(kFileHeader + at) : 0; };
  Header header;
  uint32_t height = 0;
  if (is_os2) {
    header.size.width = file.u16(kFileHeader + 4);
    height = file.u16(kFileHeader + 6);
    header.bits = file.u16(kFileHeader + 10);
  } else {
    header.size.width = field(4);
    height = field(8);
    header.bits = file.u16(kFileHeader + 14);
    header.compression = field(16);
    header.is_top_down = height >= 0xff000000;
  }
  header.size.height = header.is_top_down ? 0x100000000 - int64_t{height} : height;
  constexpr int64_t kMost = 0x7fffffff;
  if (header.size.width < 1 || header.size.height < 1 || header.size.width > kMost || header.size.height > kMost) {
    throw UnreadablePicture::damaged();
  }
  const auto& bits = header.bits;
  if (bits != 1 && bits != 2 && bits != 4 && bits != 8 && bits != 16 && bits != 24 && bits != 32) {
    throw UnreadablePicture("a BMP of " + std::to_string(bits) + " bits a pixel, which is not supported");
  }
  check_compression(header, header_size);
  const size_t after_header = kFileHeader + header_size;
  header.pixels_at = file.u32(10);
  if (bits > 8) {
    header.masks = masks_of(file, header_size, header);
    if (header.pixels_at == 0) header.pixels_at = after_header;
    return header;
  }
  const size_t entry = is_os2 ? 3 : 4;
  const size_t count = std::max<size_t>(field(32), 0) == 0 ? size_t{1} << bits : field(32);
  if (count > 65536) throw UnreadablePicture("a BMP with a palette of " + std::to_string(count) + " colours");
  header.palette = palette_of(file, after_header, count, entry);
  // Some writers do not count the palette in the position of the pixels.
  if (header.pixels_at == after_header || header.pixels_at == 0) header.pixels_at = after_header + count * entry;
  return header;
}

/** Expands the bits of a channel to 0 … 255, rounded down like Pillow. */
uint8_t channel(uint32_t pixel, uint32_t mask) {
  const int shift = std::countr_zero(mask);
  return static_cast<uint8_t>(uint64_t{(pixel & mask) >> shift} * 255 / (mask >> shift));
}

void unpack_row(std::span<const uint8_t> row, const Header& header, uint8_t* to) {
  const auto bits = header.bits;
  for (int64_t x = 0; x < header.size.width; ++x, to += 4) {
    if (bits <= 8) {
      const auto position = x * bits;
      const uint8_t index = row[position / 8] >> (8 - bits - position % 8) & ((1 << bits) - 1);
      std::memcpy(to, header.palette[index].data(), 4);
      continue;
    }
    uint32_t pixel = 0;
    for (uint32_t i = 0; i < bits / 8; ++i) pixel |= uint32_t{row[x * bits / 8 + i]} << (8 * i);
    for (size_t i = 0; i < 4; ++i) to[i] = header.masks[i] == 0 ? 255 : channel(pixel, header.masks[i]);
  }
}

/** The palette index of each pixel in a run-length encoded file. Pixels that the file omits have index 0. */
class RunLengths {
 public:
  RunLengths(const FileBytes& file, const Header& header)
      : file_(file), at_(header.pixels_at), width_(header.size.width), is_rle4_(header.compression == kRle4) {
    indices_.resize(header.size.width * header.size.height);
  }

  std::vector<uint8_t> read() {
    while (count_ < indices_.size()) {
      const auto pair = file_.part(at_, 2);
      at_ += 2;
      if (pair[0] != 0) repeat(pair[0], pair[1]);
      else if (pair[1] == 0) end_line();
      else if (pair[1] == 1) break;
      else if (pair[1] == 2) skip();
      else copy(pair[1]);
    }
    return std::move(indices_);
  }

 private:
  void repeat(size_t pixels, uint8_t value) {
    const size_t fitting = std::min(pixels, width_ - std::min(x_, width_));
    for (size_t i = 0; i < fitting; ++i) put(is_rle4_ ? (i % 2 == 0 ? value >> 4 : value & 15) : value);
    x_ += fitting;
  }

  void end_line() {
    count_ = std::min(indices_.size(), (count_ + width_ - 1) / width_ * width_);
    x_ = 0;
  }

  void skip() {
    const auto offset = file_.part(at_, 2);
    at_ += 2;
    count_ = std::min(indices_.size(), count_ + offset[0] + offset[1] * width_);
    x_ = count_ % width_;
  }

  void copy(size_t pixels) {
    const size_t fitting = std::min(pixels, indices_.size() - count_);
    const auto bytes = file_.part(at_, is_rle4_ ? (fitting + 1) / 2 : fitting);
    for (size_t i = 0; i < fitting; ++i) put(is_rle4_ ? (i % 2 == 0 ? bytes[i / 2] >> 4 : bytes[i / 2] & 15) : bytes[i]);
    // Copied pixels fill whole words.
    at_ += (bytes.size() + 1) / 2 * 2;
    x_ += pixels;
  }

  void put(uint8_t index) {
    if (count_ < indices_.size()) indices_[count_++] = index;
  }

  const FileBytes& file_;
  size_t at_;
  const size_t width_;
  const bool is_rle4_;
  std::vector<uint8_t> indices_;
  size_t count_ = 0;
  /** Number of pixels read in the current row. */
  size_t x_ = 0;
};

}  // namespace

bool is_bmp(const FileBytes& file) { return file.begins_with("BM"); }

Size bmp_size(const FileBytes& file) { return header_of(file).size; }

Decoded read_bmp(const FileBytes& file) {
  Header header = header_of(file);
  const auto& [width, height] = header.size;
  const bool is_encoded = header.compression == kRle8 || header.compression == kRle4;
  const auto indices = is_encoded ? RunLengths(file, header).read() : std::vector<uint8_t>();
  if (is_encoded) header.bits = 8;  // of the decoded indices
  const size_t last_row = (width * header.bits + 7) / 8;
  const size_t row_bytes = is_encoded ? width : (last_row + 3) / 4 * 4;
  // Checked before the memory of the pixels is allocated. Some writers omit the last row's padding.
  const auto rows = is_encoded ? std::span(indices) : file.part(header.pixels_at, row_bytes * (height - 1) + last_row);
  Decoded whole = Decoded::of(header.size);
  for (int64_t y = 0; y < height; ++y) {
    const auto row = rows.subspan(y * row_bytes, last_row);
    uint8_t* const to = whole.row(header.is_top_down ? y : height - 1 - y);
    if (header.bits != 8) unpack_row(row, header, to);
    else for (int64_t x = 0; x < width; ++x) std::memcpy(to + x * 4, header.palette[row[x]].data(), 4);
  }
  return whole;
}

}  // namespace pixels
