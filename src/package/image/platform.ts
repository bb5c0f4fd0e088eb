/** The platform of an image. An image contains libraries of this machine, so the platforms are the same. */
import { SconceError } from "../../base/errors.ts";

export interface Platform {
  readonly os: "linux";
  /** In Go's spelling. */
  readonly architecture: "amd64" | "arm64";
}

/** @throws SconceError `usage` when the machine is not Linux on x64 or arm64 */
export function imagePlatform(os: string = process.platform, arch: string = process.arch): Platform {
  const architecture = arch === "x64" ? "amd64" : arch === "arm64" ? "arm64" : undefined;
  if (os === "linux" && architecture !== undefined) return { os: "linux", architecture };
  throw new SconceError(
    "usage",
    `an image takes the libraries of the machine that writes it, which is ${os} ${arch}; expected linux x64 or linux arm64: write it there, or in a container`,
  );
}
