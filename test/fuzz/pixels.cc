// A libFuzzer target for the picture code in native/pixels. Outputs get arrays of exactly the size that JavaScript
// allocates, so that AddressSanitizer finds each write past the end.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "bitmap.h"
#include "decoded.h"
#include "decoders.h"
#include "resample.h"
#include "target.h"

namespace {

/** Random numbers, read from the first bytes of the fuzzer's input. */
class Head {
 public:
  Head(const uint8_t* data, size_t size) : at_(data), left_(size) {}

  int64_t number(int64_t from, int64_t to) {
    uint16_t bytes = 0;
    for (int i = 0; i < 2 && left_ > 0; ++i, --left_) bytes = static_cast<uint16_t>(bytes << 8 | *at_++);
    return from + bytes % (to - from + 1);
  }

 private:
  const uint8_t* at_;
  size_t left_;
};

pixels::Target target_of(Head& head) {
  constexpr int kChannels[] = {1, 3, 4};
  pixels::Target target{};
  target.width = head.number(1, 70);
  target.height = head.number(1, 70);
  target.x = head.number(-80, 80);
  target.y = head.number(-80, 80);
  target.channels = kChannels[head.number(0, 2)];
  target.is_bgr = head.number(0, 1) == 1;
  target.is_planar = head.number(0, 1) == 1;
  target.background = {1, 2, 3};
  target.mean.assign(target.channels, 0.5F);
  target.std.assign(target.channels, 0.25F);
  return target;
}

/** Converts a decoded picture to a tensor of random size and type, as addon.cc does. */
void write(const pixels::Raster& whole, bool is_opaque, Head& head) {
  const auto target = target_of(head);
  const int64_t width = head.number(1, 90);
  const int64_t height = head.number(1, 90);
  const auto filter = static_cast<pixels::Filter>(head.number(0, 4));
  const bool is_scaled = whole.width != width || whole.height != height;
  const pixels::Rows as_it_is{width, height, is_opaque, false, [whole](int64_t y) { return whole.row(y); }};
  const auto rows = is_scaled ? pixels::resample(whole, width, height, filter, is_opaque) : as_it_is;
  const size_t count = target.width * target.height * target.channels;
  if (head.number(0, 1) == 0) {
    std::vector<uint8_t> result(count);
    pixels::write_target(rows, target, result.data());
  } else {
    std::vector<float> result(count);
    pixels::write_target(rows, target, result.data());
  }
}

void stored_png(Head& head, std::vector<uint8_t> file) {
  try {
    const auto raster = pixels::read_stored_png(file.data(), file.size());
    // The server never decodes a picture of 0 pixels.
    if (raster.width > 0 && raster.height > 0) write(raster, pixels::is_opaque(raster), head);
  } catch (const std::runtime_error&) {
    // The reader refuses the file, which is no fault.
  }
}

void jpeg(Head& head, const std::vector<uint8_t>& file) {
  const int64_t width = head.number(1, 64);
  const int64_t height = head.number(1, 64);
  const auto decoded = pixels::decode_jpeg(file, width, height);
  if (decoded.memory) write(decoded.raster, true, head);
}

/** Decodes a GIF or BMP of at most a million pixels, places it on a canvas, and turns it. */
template <pixels::Size (*size_of)(const pixels::FileBytes&), pixels::Decoded (*read)(const pixels::FileBytes&)>
void file_of_own_reader(Head& head, const std::vector<uint8_t>& bytes) {
  try {
    const pixels::FileBytes file(bytes);
    const auto [width, height] = size_of(file);
    if (width * height > 1'000'000) return;
    const auto decoded = read(file);
    const pixels::Canvas canvas{{head.number(1, 90), head.number(1, 90)}, head.number(0, 20), head.number(0, 20), head.number(0, 1) == 1};
    const auto turned = pixels::orient(decoded.raster, static_cast<int>(head.number(2, 8)));
    const auto placed = pixels::place(turned.raster, canvas);
    write(placed.raster, pixels::is_opaque(placed.raster), head);
  } catch (const pixels::UnreadablePicture&) {
    // The reader refuses the file, which is no fault.
  }
}

void raw(Head& head, std::vector<uint8_t> rgba) {
  const int64_t width = head.number(1, 100);
  const int64_t height = head.number(1, 100);
  rgba.resize(width * height * 4);
  write({width, height, rgba.data(), static_cast<size_t>(width) * 4}, head.number(0, 1) == 1, head);
}

void bitmap(Head& head, std::vector<uint8_t> data) {
  const int64_t width = head.number(0, 40);
  const int64_t height = head.number(0, 40);
  const int channels = static_cast<int>(head.number(1, 4));
  data.resize(width * height * channels);
  std::vector<uint8_t> file(pixels::kBitmapHeader + width * height * 4);
  const pixels::Picture picture{data, width, height, channels, head.number(0, 1) == 1, head.number(0, 1) == 1};
  pixels::write_bitmap(picture, file.data());
  std::vector<uint8_t> scanlines(height * (1 + width * channels));
  pixels::write_scanlines(picture, scanlines.data());
}

}  // namespace

/** Number of bytes that choose the case and its sizes; the rest of the input is the file. */
constexpr size_t kHead = 40;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kHead) return 0;
  Head head(data, kHead);
  const std::vector<uint8_t> file(data + kHead, data + size);
  switch (head.number(0, 5)) {
    case 0: stored_png(head, file); break;
    case 1: jpeg(head, file); break;
    case 2: raw(head, file); break;
    case 3: bitmap(head, file); break;
    case 4: file_of_own_reader<pixels::bmp_size, pixels::read_bmp>(head, file); break;
    default: file_of_own_reader<pixels::gif_size, pixels::read_gif>(head, file); break;
  }
  return 0;
}
