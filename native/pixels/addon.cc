// Exports of the addon for pictures, which needs no libtorch. src/author/pixels.ts has their types.
#include <napi.h>

#include <array>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bitmap.h"
#include "decoded.h"
#include "decoders.h"
#include "resample.h"

namespace pixels {
namespace {

/** Code of the errors of a file that cannot be read. */
const std::string kUnreadable = "unreadable_picture";

/** A decoding or encoding task. Returns whether it could handle the picture. */
using Task = std::function<bool()>;

/**
 * Runs a task on another thread. The promise resolves to false if the task could not handle the picture; otherwise it
 * resolves to the milliseconds for which the task and its result waited.
 */
class Work final : public Napi::AsyncWorker {
 public:
  static Napi::Value start(const Napi::CallbackInfo& info, Task task) {
    auto work = std::make_unique<Work>(info, std::move(task));
    const Napi::Value promise = work->promise_.Promise();
    work->Queue();
    work.release();
    return promise;
  }

  Work(const Napi::CallbackInfo& info, Task task)
      : AsyncWorker(info.Env(), "pixels"), task_(std::move(task)), promise_(info.Env()) {
    for (size_t i = 0; i < 2; ++i) arrays_[i] = Napi::Persistent(info[i].As<Napi::Object>());
  }

 private:
  void Execute() override {
    began_ = Clock::now();
    try {
      done_ = task_();
    } catch (const UnreadablePicture&) {
      is_unreadable_ = true;
      throw;
    }
    finished_ = Clock::now();
  }

  void OnOK() override {
    const std::chrono::duration<double, std::milli> waited = (began_ - queued_) + (Clock::now() - finished_);
    promise_.Resolve(done_ ? Napi::Value::From(Env(), waited.count()) : Napi::Boolean::New(Env(), false));
  }

  void OnError(const Napi::Error& error) override {
    if (is_unreadable_) error.Value()["code"] = kUnreadable;
    promise_.Reject(error.Value());
  }

  void OnWorkComplete(Napi::Env env, napi_status status) override {
    SuppressDestruct();
    const std::unique_ptr<Work> self(this);
    try {
      AsyncWorker::OnWorkComplete(env, status);
    } catch (const Napi::Error&) {
      // In a terminating Worker the promise cannot be settled, and no JS code waits for it.
    }
  }

  using Clock = std::chrono::steady_clock;

  Task task_;
  Clock::time_point queued_ = Clock::now();
  Clock::time_point began_;
  Clock::time_point finished_;
  std::array<Napi::ObjectReference, 2> arrays_;
  Napi::Promise::Deferred promise_;
  bool done_ = false;
  bool is_unreadable_ = false;
};

int64_t number(const Napi::Object& given, const char* name) { return given.Get(name).As<Napi::Number>().Int64Value(); }

bool flag(const Napi::Object& given, const char* name) { return given.Get(name).As<Napi::Boolean>().Value(); }

std::vector<float> floats(const Napi::Object& given, const char* name, size_t count) {
  const auto list = given.Get(name).As<Napi::Array>();
  if (list.Length() != count) throw Napi::RangeError::New(given.Env(), std::string(name) + " has another length");
  std::vector<float> values;
  for (uint32_t i = 0; i < list.Length(); ++i) values.push_back(list.Get(i).As<Napi::Number>().FloatValue());
  return values;
}

int channels_of(const Napi::Object& given) {
  const int64_t channels = number(given, "channels");
  if (channels == 1 || channels == 3 || channels == 4) return static_cast<int>(channels);
  throw Napi::RangeError::New(given.Env(), "channels is " + std::to_string(channels) + "; give 1, 3 or 4");
}

void require_length(const Napi::TypedArray& array, int64_t expected) {
  if (static_cast<int64_t>(array.ElementLength()) == expected) return;
  throw Napi::RangeError::New(array.Env(), "an array has another length than its picture");
}

/** The result's size and form, and the picture's form before scaling. */
struct Layout {
  Target target;
  std::variant<uint8_t*, float*> to{};
  Size scaled;
  Filter filter;
  /** Exif orientation: 1 leaves the picture as it is. */
  int orientation = 1;
  /** The canvas, if the picture is a frame of an animation. */
  std::optional<Canvas> canvas{};
};

/**
 * Places a picture on its canvas, orients it, scales it, and writes it to the target.
 * @param has_alpha false for a file format without transparency, which saves the search for transparent pixels
 */
void lay_out(const Raster& decoded, const Layout& layout, bool has_alpha) {
  Decoded placed;
  Decoded turned;
  Raster whole = decoded;
  if (layout.canvas) {
    placed = place(whole, *layout.canvas);
    whole = placed.raster;
  }
  if (layout.orientation != 1) {
    turned = orient(whole, layout.orientation);
    whole = turned.raster;
  }
  const bool opaque = !has_alpha || is_opaque(whole);
  const auto& [width, height] = layout.scaled;
  const bool is_scaled = whole.width != width || whole.height != height;
  const Rows as_it_is{width, height, opaque, false, [whole](int64_t y) { return whole.row(y); }};
  write_target(is_scaled ? resample(whole, width, height, layout.filter, opaque) : as_it_is, layout.target, layout.to);
}

Layout layout_of(const Napi::TypedArray& result, const Napi::Object& given) {
  const auto background = floats(given, "background", 3);
  Layout layout{
      .target{
          .width = number(given, "width"),
          .height = number(given, "height"),
          .x = number(given, "x"),
          .y = number(given, "y"),
          .channels = channels_of(given),
          .is_bgr = flag(given, "isBgr"),
          .is_planar = flag(given, "isPlanar"),
      },
      .scaled = {number(given, "scaledWidth"), number(given, "scaledHeight")},
      .filter = static_cast<Filter>(number(given, "filter")),
      .orientation = static_cast<int>(number(given, "orientation")),
  };
  auto& target = layout.target;
  for (size_t i = 0; i < 3; ++i) target.background[i] = static_cast<uint8_t>(background[i]);
  require_length(result, target.width * target.height * target.channels);
  if (result.TypedArrayType() == napi_float32_array) {
    target.mean = floats(given, "mean", target.channels);
    target.std = floats(given, "std", target.channels);
    layout.to = result.As<Napi::Float32Array>().Data();
  } else {
    layout.to = result.As<Napi::Uint8Array>().Data();
  }
  const auto& [width, height] = layout.scaled;
  if (width < 1 || height < 1) throw Napi::RangeError::New(given.Env(), "there is nothing of that size");
  if (given.Get("canvas").IsObject()) {
    const auto canvas = given.Get("canvas").As<Napi::Object>();
    layout.canvas = Canvas{
        .size = {number(canvas, "width"), number(canvas, "height")},
        .x = number(canvas, "x"),
        .y = number(canvas, "y"),
        .is_opaque = flag(canvas, "isOpaque"),
    };
  }
  return layout;
}

/**
 * toTensor(file, result, target) → Promise; fills `result`. Decodes a PNG in place, which overwrites `file`; copies any
 * other file before this returns.
 */
Napi::Value ToTensor(const Napi::CallbackInfo& info) {
  auto file = info[0].As<Napi::Uint8Array>();
  const auto given = info[2].As<Napi::Object>();
  const Layout layout = layout_of(info[1].As<Napi::TypedArray>(), given);
  const auto format = given.Get("format").As<Napi::String>().Utf8Value();
  if (format == "png") {
    return Work::start(info, [=, png = file.Data(), size = file.ByteLength()] {
      lay_out(read_stored_png(png, size), layout, true);
      return true;
    });
  }
  // Copied, because the author's code may change or transfer the array while the task runs.
  std::vector<uint8_t> bytes(file.Data(), file.Data() + file.ByteLength());
  // The caller checked and reserved memory for this size only.
  const Size expected{number(given, "sourceWidth"), number(given, "sourceHeight")};
  return Work::start(info, [=, bytes = std::move(bytes)] {
    Decoded decoded;
    if (format == "jpeg") {
      decoded = decode_jpeg(bytes, expected.width, expected.height);
      if (!decoded.memory) return false;
    } else {
      const FileBytes read(bytes);
      const bool is_gif = format == "gif";
      if ((is_gif ? gif_size(read) : bmp_size(read)) != expected) throw UnreadablePicture::damaged();
      decoded = is_gif ? read_gif(read) : read_bmp(read);
    }
    lay_out(decoded.raster, layout, format != "jpeg");
    return true;
  });
}

/** sizeOf(file) → { format, width, height } of a BMP or GIF, or undefined for any other file. Throws for a file that cannot be read. */
Napi::Value SizeOf(const Napi::CallbackInfo& info) {
  const auto file = info[0].As<Napi::Uint8Array>();
  const FileBytes bytes({file.Data(), file.ByteLength()});
  const bool is_one_gif = is_gif(bytes);
  if (!is_one_gif && !is_bmp(bytes)) return info.Env().Undefined();
  try {
    const auto [width, height] = is_one_gif ? gif_size(bytes) : bmp_size(bytes);
    auto size = Napi::Object::New(info.Env());
    size["format"] = is_one_gif ? "gif" : "bmp";
    size["width"] = static_cast<double>(width);
    size["height"] = static_cast<double>(height);
    return size;
  } catch (const UnreadablePicture& fault) {
    auto error = Napi::Error::New(info.Env(), fault.what());
    error.Value()["code"] = kUnreadable;
    throw error;
  }
}

/** The picture of `toBitmap` and `toScanlines`: a copy, because the author's code may transfer its array meanwhile. */
Picture picture_of(const Napi::CallbackInfo& info) {
  const auto pixels = info[0].As<Napi::Uint8Array>();
  const auto given = info[2].As<Napi::Object>();
  Picture picture{
      .data = std::vector<uint8_t>(pixels.Data(), pixels.Data() + pixels.ByteLength()),
      .width = number(given, "width"),
      .height = number(given, "height"),
      .channels = static_cast<int>(number(given, "channels")),
      .is_planar = flag(given, "isPlanar"),
      .is_opaque = flag(given, "isOpaque"),
  };
  if (picture.channels < 1 || picture.channels > 4) throw Napi::RangeError::New(info.Env(), "channels must be 1 to 4");
  require_length(pixels, picture.width * picture.height * picture.channels);
  return picture;
}

/** toBitmap(pixels, file, picture) → Promise; fills `file`. */
Napi::Value ToBitmap(const Napi::CallbackInfo& info) {
  Picture picture = picture_of(info);
  auto file = info[1].As<Napi::Uint8Array>();
  require_length(file, kBitmapHeader + picture.width * picture.height * 4);
  return Work::start(info, [picture = std::move(picture), to = file.Data()] {
    write_bitmap(picture, to);
    return true;
  });
}

/** toScanlines(pixels, scanlines, picture) → Promise; fills `scanlines`. */
Napi::Value ToScanlines(const Napi::CallbackInfo& info) {
  Picture picture = picture_of(info);
  auto scanlines = info[1].As<Napi::Uint8Array>();
  require_length(scanlines, picture.height * (1 + picture.width * picture.channels));
  return Work::start(info, [picture = std::move(picture), to = scanlines.Data()] {
    write_scanlines(picture, to);
    return true;
  });
}

/**
 * Wraps a function for JS, and catches all C++ exceptions: an exception that passes through JS frames would end the
 * process.
 */
template <Napi::Value (*body)(const Napi::CallbackInfo&)>
napi_value guarded(napi_env env, napi_callback_info info) noexcept {
  try {
    try {
      return body(Napi::CallbackInfo(env, info));
    } catch (const Napi::Error& error) {
      error.ThrowAsJavaScriptException();
    } catch (const std::exception& error) {
      napi_throw_error(env, nullptr, error.what());
    }
  } catch (...) {
    // A terminating Worker accepts no exceptions.
  }
  return nullptr;
}

Napi::Object Init(Napi::Env env, Napi::Object exports) {
  const auto add = [&](const char* name, napi_callback callback) {
    napi_value function;
    if (napi_create_function(env, name, NAPI_AUTO_LENGTH, callback, nullptr, &function) != napi_ok) {
      throw Napi::Error::New(env);
    }
    exports.Set(name, function);
  };
  add("toTensor", guarded<ToTensor>);
  add("sizeOf", guarded<SizeOf>);
  add("toBitmap", guarded<ToBitmap>);
  add("toScanlines", guarded<ToScanlines>);
  return exports;
}

}  // namespace
}  // namespace pixels

static Napi::Object Init(Napi::Env env, Napi::Object exports) { return pixels::Init(env, exports); }
NODE_API_MODULE(pixels, Init)
