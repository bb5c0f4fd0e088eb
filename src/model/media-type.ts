/** Media types as headers and data URIs have them: `text/plain; charset=utf-8`. */

export interface MediaType {
  /** In lower case; "" where there is none. */
  readonly essence: string;
  /** As `;charset=utf-8`; none that a data URI could not have as it is. */
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
