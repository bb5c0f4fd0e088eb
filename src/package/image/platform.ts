/**
 * The platform of a container image: always this machine's platform, because its libraries are copied into the image.
 */
import { SconceError } from "../../base/errors.ts";

export interface Platform {
  readonly os: "linux";
  /** Processor architecture, as Go spells it. */
  readonly architecture: "amd64" | "arm64";
}

/** The platform of this machine. @throws SconceError `usage` when it is not Linux on x64 or arm64 */
export function imagePlatform(os: string = process.platform, arch: string = process.arch): Platform {
  const architecture = arch === "x64" ? "amd64" : arch === "arm64" ? "arm64" : undefined;
  if (os === "linux" && architecture !== undefined) return { os: "linux", architecture };
  throw new SconceError(
    "usage",
    `an image takes the libraries of the machine that writes it, which is ${os} ${arch}; expected linux x64 or linux arm64: write it there, or in a container`,
  );
}
