/**
 * Chooses the wheel of torch: the newest supported release that runs on this machine and satisfies pip's constraints.
 */
import { readFileSync } from "node:fs";
import { unavailable } from "./wheels/index-client.ts";
import type { WheelLink } from "./wheels/package-index.ts";
import { parseRequirement, type Requirement } from "./wheels/requirement.ts";
import { compareReleases, isAllowed } from "./wheels/version.ts";

export interface Choice {
  readonly wheel: WheelLink;
  /** Message about newer releases that a constraint excluded; undefined when there are none. */
  readonly leftOut: string | undefined;
}

export interface Wish {
  /** `2.13.0`, or `2.13` for its newest patch release; undefined for the newest release. */
  readonly version: string | undefined;
  /** Minor releases that this sconce supports, e.g. `2.13`. */
  readonly minors: readonly string[];
  readonly gpu: boolean;
  readonly constraints: readonly string[];
  readonly glibc: string | undefined;
  readonly arch: NodeJS.Architecture;
  /** The searched places, for messages. */
  readonly places: string;
}

/** @throws SconceError `index_unavailable`, listing the available releases */
export function chooseTorch(wheels: readonly WheelLink[], wish: Wish): Choice {
  const { version: asked, minors, gpu, places } = wish;
  const [first = "", last = first] = [minors[0], minors.at(-1)];
  const loadable = wheels
    .filter((wheel) => runsHere(wheel, wish))
    .filter(({ version: { local = "" } }) => (gpu ? /^(cu\d+)?$/ : /^(cpu|cu\d+)?$/).test(local));
  const supported = loadable.filter(({ version }) => minors.includes(version.release.slice(0, 2).join(".")));
  // Constraints apply only to an automatic choice, not to a version that the user names.
  const limits = asked === undefined ? constraintsOn("torch", wish.constraints) : [];
  const allowed = supported
    .filter(({ version }) => asked === undefined || isAsked(version.text, asked))
    .filter(({ version }) => limits.every(({ specifiers }) => isAllowed(version, specifiers)));
  const [wheel] = allowed.toSorted(
    (a, b) => compareReleases(b.version.release, a.version.release) || Number(isForGpus(a)) - Number(isForGpus(b)),
  );
  if (wheel === undefined) {
    const sorted = supported.toSorted((a, b) => compareReleases(a.version.release, b.version.release));
    const there = [...new Set(sorted.map(({ version }) => version.text))];
    const found = there.length === 0 ? "none" : there.join(", ");
    const limit = limits.map(({ specifiers, file }) => `; ${file} allows torch${specifiers} alone`).join("");
    throw unavailable(
      `no ${gpu ? "CUDA " : ""}wheel of torch ${asked ?? `${first} to ${last}`} for ${process.platform} ${wish.arch} with glibc ${wish.glibc} at ${places}: of the supported ones (${first} to ${last}) there is ${found}${limit}`,
    );
  }
  const isNewer = (other: WheelLink) => compareReleases(other.version.release, wheel.version.release) > 0;
  const [newer] = supported.filter(isNewer).map(({ version }) => version.text);
  const [limit] = limits;
  return {
    wheel,
    leftOut:
      newer === undefined || limit === undefined
        ? undefined
        : `${newer} is there, but ${limit.file} allows torch${limit.specifiers} alone; name a version to have it all the same`,
  };
}

/** Whether the wheel may be for GPUs. Some indexes mark CPU wheels with `+cpu`; unmarked wheels may be either. */
function isForGpus({ version }: WheelLink): boolean {
  return version.local !== "cpu";
}

function isAsked(version: string, asked: string): boolean {
  return version === asked || version.startsWith(`${asked}+`) || version.startsWith(`${asked}.`);
}

const architectures: Readonly<Partial<Record<NodeJS.Architecture, string>>> = { x64: "x86_64", arm64: "aarch64" };
const namedGlibcs: Readonly<Record<string, string>> = { "1": "2.5", "2010": "2.12", "2014": "2.17" };

/**
 * Decides by the wheel's platform tags:
 * https://packaging.python.org/en/latest/specifications/platform-compatibility-tags/
 */
export function runsHere({ platforms }: WheelLink, { glibc, arch }: Pick<Wish, "glibc" | "arch">): boolean {
  return platforms.split(".").some((tag) => {
    if (tag === "any") return true;
    const [, kind = "", machine] = /^(linux|manylinux(?:\d+|_\d+_\d+))_([a-z]\w*)$/.exec(tag) ?? [];
    if (machine !== architectures[arch] || glibc === undefined) return false;
    const [, year, numbers] = /^manylinux(\d*)_?(.*)$/.exec(kind) ?? [];
    const needed = year ? namedGlibcs[year] : (numbers?.replace("_", ".") ?? "0");
    return needed !== undefined && compareReleases(glibc.split(".").map(Number), needed.split(".").map(Number)) >= 0;
  });
}

/** Constraints on a package. Missing files and URLs are ignored. */
function constraintsOn(name: string, files: readonly string[]): (Requirement & { readonly file: string })[] {
  return files.flatMap((file) => {
    let text: string;
    try {
      text = readFileSync(file.replace(/^file:\/\//, ""), "utf8");
    } catch {
      return [];
    }
    const found = text.split("\n").map(parseRequirement);
    return found
      .filter((one) => one !== undefined)
      .filter((one) => one.name === name && one.specifiers !== "")
      .map((one) => ({ ...one, file }));
  });
}
