/** Media types in headers and data URIs, e.g. `text/plain; charset=utf-8`. */

export interface MediaType {
  /** Type and subtype such as `text/plain`, in lower case; "" when missing. */
  readonly essence: string;
  /** Parameters such as `;charset=utf-8`. Parameters that a data URI cannot contain unescaped are dropped. */
  readonly parameters: string;
}

const essencePattern = /^[a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+$/;
const parameter = /;\s*([\w!$&^.+-]+)=("?)([\w!$&^.+-]+)\2\s*(?=;|$)/g;

export function mediaTypeOf(text: string): MediaType {
  const [essence = ""] = text.split(";", 1);
  const parameters = Array.from(
    text.slice(essence.length).matchAll(parameter),
    ([, name, , value]) => `;${name}=${value}`,
  );
  return { essence: essence.trim().toLowerCase(), parameters: parameters.join("") };
}

export function isEssence(text: string): boolean {
  return essencePattern.test(text);
}
