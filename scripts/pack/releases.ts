import { defaultTorch } from "../../src/machine/libtorch/libtorch-build.ts";

/** The release of torch against which the addon is compiled, by minor release. */
export const releases: Readonly<Record<string, string>> = {
  "2.11": "2.11.0",
  "2.12": "2.12.0",
  "2.13": defaultTorch,
  "2.14": "2.14.1",
  "2.15": "2.15.0",
};
