/** Whose a prediction is: the first character of its id names the front that accepted it. */

/** One for each front, of which a server has at most 60; ids that clients choose begin with any of them. */
const names = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

/** The owner's name of the front with this index. */
export function ownerOf(index: number): string {
  return names[index] ?? "0";
}

/**
 * The front that has an id's prediction when there are `fronts` of them: those of a server that had more are taken over by the others.
 * @returns undefined for what is no id
 */
export function indexOf(id: string, fronts: number): number | undefined {
  const at = names.indexOf(id.slice(0, 1));
  return id === "" || at < 0 ? undefined : at % fronts;
}
