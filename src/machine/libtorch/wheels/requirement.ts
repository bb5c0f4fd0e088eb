/** What a Python package needs, a line each in its METADATA, its constraint files and on pip's command line. */

export interface Requirement {
  /** Normalized: `cuda-toolkit`. */
  readonly name: string;
  readonly extras: readonly string[];
  /** `==13.0.*`; empty for any version. */
  readonly specifiers: string;
  /** The extra of the package for which alone it is needed. */
  readonly extra: string | undefined;
}

/** As package indexes spell names (PEP 503). */
export function normalizedName(name: string): string {
  return name.replaceAll(/[-_.]+/g, "-").toLowerCase();
}

/** `cuda-toolkit[cudart,cupti]==13.0.3; platform_system == "Linux"`; undefined for an option, a comment or a URL. */
export function parseRequirement(line: string): Requirement | undefined {
  const [text = "", marker = ""] = line.replace(/(^|\s)#.*$/, "").split(";", 2);
  // In two steps, each without parts that could share the same characters: a line from elsewhere may be a million blanks.
  const [, name, extras = "", rest = ""] =
    /^([A-Za-z0-9][\w.-]*)(?![\w.-])\s*(?:\[([^\]]*)\])?(.*)$/s.exec(text.trim()) ?? [];
  const [, specifiers] = /^\(?([^()@]*)\)?$/.exec(rest.trim()) ?? [];
  if (name === undefined || specifiers === undefined) return undefined;
  return {
    name: normalizedName(name),
    extras: extras.split(",").map((extra) => normalizedName(extra.trim())),
    specifiers: specifiers.trim(),
    extra: /\bextra\s*==\s*['"]([^'"]+)['"]/.exec(marker)?.[1],
  };
}

/** Those of a METADATA file that hold with some extras. */
export function requirementsOf(metadata: string, extras: readonly string[]): Requirement[] {
  return [...metadata.matchAll(/^Requires-Dist:(.*)$/gm)]
    .map(([, line = ""]) => parseRequirement(line))
    .filter((found) => found !== undefined)
    .filter(({ extra }) => extra === undefined || extras.includes(normalizedName(extra)));
}
