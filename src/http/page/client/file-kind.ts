/** Describes in words which files a field accepts. */

import { fileDescription, imageDescription, isAudioDescription } from "../../../author/file-description.ts";
import type { FileMark } from "../../../base/schemas/json-schema.ts";

const nouns: Readonly<Record<string, string>> = { image: "an image", audio: "a sound", video: "a video" };

/** The part before the slash that all accepted media types share, such as `image`; undefined if they share none. */
export function familyOf({ mediaTypes }: FileMark): string | undefined {
  const [family, ...others] = new Set(mediaTypes.map((type) => type.split("/", 1)[0]));
  return others.length === 0 ? family : undefined;
}

/** The noun for a file with its article, such as `an image` or `a file`. */
export function nounOf(file: FileMark): string {
  return nouns[familyOf(file) ?? ""] ?? "a file";
}

/** The description that the model's author wrote; undefined for the default description, which is for programs. */
export function authorsWords(description: string | undefined, file: FileMark): string | undefined {
  const text = description ?? "";
  const isDefault = [imageDescription, fileDescription(file)].includes(text) || isAudioDescription(text);
  return isDefault ? undefined : description;
}
