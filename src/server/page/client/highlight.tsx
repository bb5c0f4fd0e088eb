/** Colours for the few languages of the snippets: texts, comments, numbers and words of the language. */
import type { ComponentChildren } from "preact";

const tokens =
  /(?<text>"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|`(?:[^`\\]|\\.)*`)|(?<number>\b\d[\d.]*\b)|(?<word>\b(?:import|from|const|await|async|return|def|with|as|open|curl|true|false|null|True|False|None)\b)/g;

/** Longer texts are shown without colours. */
const MAX_LENGTH = 100_000;

export function Highlighted({ code }: { readonly code: string }) {
  if (code.length > MAX_LENGTH) return <>{code}</>;
  const parts: ComponentChildren[] = [];
  let end = 0;
  for (const match of code.matchAll(tokens)) {
    const [kind] = Object.entries(match.groups ?? {}).find(([, found]) => found !== undefined) ?? ["text"];
    parts.push(
      code.slice(end, match.index),
      <span key={match.index} class={`code-${kind}`}>
        {match[0]}
      </span>,
    );
    end = match.index + match[0].length;
  }
  return (
    <>
      {parts}
      {code.slice(end)}
    </>
  );
}
