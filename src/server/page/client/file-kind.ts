/** Words for the files that a field accepts. */

import { audioDescriptions, fileDescription, imageDescription } from "../../../author/file-description.ts";
import type { FileMark } from "../../../base/json-schema.ts";

const nouns: Readonly<Record<string, string>> = { image: "an image", audio: "a sound", video: "a video" };

/** The first part of all media types: `image`; undefined if they differ, or all types are accepted. */
export function familyOf({ mediaTypes }: FileMark): string | undefined {
  const [family, ...others] = new Set(mediaTypes.map((type) => type.split("/", 1)[0]));
  return others.length === 0 ? family : undefined;
}

/** `an image`, `a file` */
export function nounOf(file: FileMark): string {
  return nouns[familyOf(file) ?? ""] ?? "a file";
}

/** The author's description of a field; undefined for the default text, which is for programs. */
export function authorsWords(description: string | undefined, file: FileMark): string | undefined {
  return [imageDescription, ...audioDescriptions, fileDescription(file)].includes(description ?? "")
    ? undefined
    : description;
}
