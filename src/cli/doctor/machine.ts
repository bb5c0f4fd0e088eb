/** Checks of the machine or container for `sconce doctor`. */
import { totalmem } from "node:os";
import { formatBytes } from "../../base/bytes.ts";
import { isArchitecture } from "../../base/platform-package.ts";
import { systemText } from "../../base/system-file.ts";
import { memoryLimit } from "../../machine/control-groups.ts";
import { glibcVersion } from "../../machine/libtorch/glibc.ts";
import { listenFault } from "../../machine/network/listener.ts";
import { type Check, fault, ok, warning } from "./check.ts";

/** The oldest C library with which the addon works. */
const OLDEST_GLIBC = "2.34";
/** Bytes of memory that libtorch takes with a small model. Less memory causes a warning. */
const LITTLE_MEMORY = 1024 ** 3;
export function system(glibc = glibcVersion()): Check {
  const machine = `${process.platform} ${process.arch}`;
  if (process.platform !== "linux" || !isArchitecture(process.arch))
    return fault("system", machine, "use Linux with glibc on x64 or arm64, for example in a container");
  if (glibc === undefined) {
    return fault(
      "system",
      `${machine} without glibc`,
      "use a system with glibc, such as Debian: torch has no libraries for musl",
    );
  }
  return Bun.semver.order(`${glibc}.0`, `${OLDEST_GLIBC}.0`) < 0
    ? fault("system", `${machine}, glibc ${glibc}`, `use a system with glibc ${OLDEST_GLIBC} or newer`)
    : ok("system", `${machine}, glibc ${glibc}`);
}

export function processor(): Check {
  const text = systemText("/proc/cpuinfo");
  const name = /^model name\s*:\s*(.*)$/m.exec(text)?.[1] ?? process.arch;
  const flags = /^(?:flags|Features)\s*:\s*(.*)$/m.exec(text)?.[1]?.split(" ") ?? [];
  const known = ["avx512f", "avx2", "fma", "asimd", "sve"].filter((flag) => flags.includes(flag));
  const found = [name, ...known].join(", ");
  return process.arch === "x64" && text !== "" && !flags.includes("avx2")
    ? warning(
        "processor",
        `${found} without AVX2`,
        "expect a fraction of the speed; compiled weights (.pt2) may be refused",
      )
    : ok("processor", found);
}

export function memory(): Check {
  const limit = memoryLimit();
  const found =
    limit < totalmem() ? `${formatBytes(limit)} of the machine's ${formatBytes(totalmem())}` : formatBytes(limit);
  return limit < LITTLE_MEMORY
    ? warning("memory", found, "give the container 1 GiB or more; libtorch alone takes some 300 MiB")
    : ok("memory", found);
}

export function port(host: string, port: number): Check {
  try {
    Bun.listen({ hostname: host, port, socket: { data() {} } }).stop(true);
    return ok("port", `${port} is free`);
  } catch (error) {
    const { found, fix } = listenFault(error);
    return fault("port", `${port} of ${host} ${found}`, fix);
  }
}
