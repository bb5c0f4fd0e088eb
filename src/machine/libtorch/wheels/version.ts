/** Versions of Python packages, as far as releases go: https://packaging.python.org/en/latest/specifications/version-specifiers/ */

export interface Version {
  /** `2.13.0+cpu` */
  readonly text: string;
  /** [2, 13, 0] */
  readonly release: readonly number[];
  /** `cpu` */
  readonly local: string | undefined;
}

/** Undefined for what is none, or no release: `2.16.0rc1`. */
export function parseVersion(text: string): Version | undefined {
  const [, numbers, post, local] = /^(\d+(?:\.\d+)*)(?:\.post(\d+))?(?:\+([\w.]+))?$/i.exec(text) ?? [];
  if (numbers === undefined) return undefined;
  const release = numbers.split(".").map(Number);
  // A post-release comes behind its release and before the next one, as one more number does.
  if (post !== undefined) while (release.length < 4) release.push(0);
  return { text, release: post === undefined ? release : [...release, Number(post)], local };
}

/** Below 0 where `a` is older. */
export function compareReleases(a: readonly number[], b: readonly number[]): number {
  for (let i = 0; i < Math.max(a.length, b.length); i += 1) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** Whether a version is what `<=2.14.1`, `==13.0.85.*` or a list of such with commas allows. */
export function isAllowed({ release }: Version, specifiers: string): boolean {
  return specifiers
    .split(",")
    .map((specifier) => specifier.trim())
    .filter(Boolean)
    .every((specifier) => {
      const [, operator = "", numbers = "", star] =
        /^(===|==|!=|<=|>=|<|>|~=)\s*v?(\d+(?:\.\d+)*)(\.\*)?(?:\+[\w.]+)?$/.exec(specifier) ?? [];
      const given = numbers.split(".").map(Number);
      const order = compareReleases(star === undefined ? release : release.slice(0, given.length), given);
      const isSameLine = compareReleases(release.slice(0, given.length - 1), given.slice(0, -1)) === 0;
      const meanings: Readonly<Record<string, boolean>> = {
        "==": order === 0,
        "===": order === 0,
        "!=": order !== 0,
        "<=": order <= 0,
        ">=": order >= 0,
        "<": order < 0,
        ">": order > 0,
        "~=": order >= 0 && isSameLine,
      };
      return meanings[operator] ?? false;
    });
}
