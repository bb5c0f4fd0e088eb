/** What images are made for: the machine that makes them, since its libraries go in. */
import { SconceError } from "../errors.ts";

export interface Platform {
  readonly os: "linux";
  /** As Go names it. */
  readonly architecture: "amd64" | "arm64";
}

/** @throws SconceError `usage` where the libraries of this machine make no image */
export function imagePlatform(os: string = process.platform, arch: string = process.arch): Platform {
  const architecture = arch === "x64" ? "amd64" : arch === "arm64" ? "arm64" : undefined;
  if (os === "linux" && architecture !== undefined) return { os: "linux", architecture };
  throw new SconceError(
    "usage",
    `an image takes the libraries of the machine that writes it, which is ${os} ${arch}; expected linux x64 or linux arm64: write it there, or in a container`,
  );
}
