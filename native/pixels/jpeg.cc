#include "decoders.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

// Embeds the TurboJPEG library in the addon, so that packages, executables and images need only one file.
asm(".pushsection .rodata\n"
    ".hidden sconce_turbojpeg\n"
    ".hidden sconce_turbojpeg_end\n"
    ".global sconce_turbojpeg\n"
    ".global sconce_turbojpeg_end\n"
    ".balign 16\n"
    "sconce_turbojpeg:\n"
    ".incbin \"" TURBOJPEG "\"\n"
    "sconce_turbojpeg_end:\n"
    ".popsection\n");
extern "C" const char sconce_turbojpeg[];
extern "C" const char sconce_turbojpeg_end[];

namespace pixels {
namespace {

// Constants of turbojpeg.h of libjpeg-turbo 3: TJINIT_DECOMPRESS, TJPARAM_STOPONWARNING, TJPARAM_JPEGWIDTH,
// TJPARAM_JPEGHEIGHT, TJPF_RGBA.
constexpr int kDecompress = 1;
constexpr int kStopOnWarning = 0;
constexpr int kWidth = 5;
constexpr int kHeight = 6;
constexpr int kRgba = 7;

bool write_all(int file, const char* from, const char* end) {
  while (from < end) {
    const ssize_t written = write(file, from, end - from);
    if (written <= 0) return false;
    from += written;
  }
  return true;
}

/** Loads the embedded library, and never unloads it. Null on failure. */
void* load_library() {
  const int file = memfd_create("turbojpeg", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  void* library = nullptr;
  if (write_all(file, sconce_turbojpeg, sconce_turbojpeg_end)) {
    // File descriptors are reused, and dlopen returns an already loaded library for an equal path. The extra "./" makes
    // the path differ from the paths of addons that src/author/pixels.ts loads from memory.
    library = dlopen(("/proc/self/fd/./" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  close(file);
  return library;
}

/** The functions of TurboJPEG that decode a file. */
class Turbo {
 public:
  static const Turbo& instance() {
    static const Turbo turbo;
    return turbo;
  }

  bool is_there() const { return is_there_; }

  void* (*init)(int) = nullptr;
  void (*destroy)(void*) = nullptr;
  int (*set)(void*, int, int) = nullptr;
  int (*header)(void*, const unsigned char*, size_t) = nullptr;
  int (*get)(void*, int) = nullptr;
  int (*decompress)(void*, const unsigned char*, size_t, unsigned char*, int, int) = nullptr;

 private:
  Turbo() {
    void* const library = load_library();
    is_there_ = library != nullptr && find(library, "tj3Init", init) && find(library, "tj3Destroy", destroy) &&
                find(library, "tj3Set", set) && find(library, "tj3DecompressHeader", header) &&
                find(library, "tj3Get", get) && find(library, "tj3Decompress8", decompress);
  }

  template <typename Function>
  static bool find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
  }

  bool is_there_ = false;
};

}  // namespace

Decoded decode_jpeg(const std::vector<uint8_t>& file, int64_t width, int64_t height) {
  const Turbo& turbo = Turbo::instance();
  if (!turbo.is_there()) return {};
  const std::unique_ptr<void, void (*)(void*)> decoder(turbo.init(kDecompress), turbo.destroy);
  if (!decoder) return {};
  turbo.set(decoder.get(), kStopOnWarning, 1);
  if (turbo.header(decoder.get(), file.data(), file.size()) != 0) return {};
  // The caller checked and reserved memory for this size only.
  if (turbo.get(decoder.get(), kWidth) != width || turbo.get(decoder.get(), kHeight) != height) return {};
  Decoded whole = Decoded::of({width, height});
  if (turbo.decompress(decoder.get(), file.data(), file.size(), whole.memory.get(), 0, kRgba) != 0) return {};
  return whole;
}

}  // namespace pixels
