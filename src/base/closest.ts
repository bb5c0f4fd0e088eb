/** Finds the known word nearest to a misspelled one, for "did you mean". */

/** The known word with the least edit distance from `given`; undefined if all exceed max(1, given.length / 3). */
export function closest(given: string, known: Iterable<string>): string | undefined {
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(given.length / 3)) + 1;
  for (const word of known) {
    const distance = editDistance(given, word);
    if (distance < bestDistance) [best, bestDistance] = [word, distance];
  }
  return best;
}

/** Edit distance in which a swap of neighbouring letters is one edit (optimal string alignment, after Damerau 1964). */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column);
  let beforePrevious = previous;
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const replaced = (previous[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1);
      const isSwapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      const swapped = isSwapped ? (beforePrevious[column - 2] ?? 0) + 1 : Infinity;
      current.push(Math.min(replaced, swapped, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1));
    }
    [beforePrevious, previous] = [previous, current];
  }
  return previous[b.length] ?? 0;
}
