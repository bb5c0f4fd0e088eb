#include "free_memory.h"

#include <malloc.h>

namespace sconce {

void give_back_free_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace sconce
