/** Shows an output by its type: as a number, text, file, bars or JSON. */
import type { JSX } from "preact";
import { isObject, type Json, type JsonObject } from "../../../base/json.ts";
import type { SchemaNode } from "../../../base/schemas/json-schema.ts";
import { Bars } from "./bars.tsx";
import { Media } from "./media.tsx";
import { extensionOf, firstText, isFile, isPicture, mediaTypeOf, numberText, titleOf } from "./value.ts";

interface OutputProps {
  readonly schema: SchemaNode | undefined;
  readonly value: Json;
  readonly label: string;
  /** The picture in the input, which is laid over a picture in the output for comparison; undefined without one. */
  readonly picture?: string | undefined;
}

/** Maximum numbers that are shown as bars. */
const MAX_BARS = 24;
/** Maximum items to show of a list with files. */
const MAX_ITEMS = 100;
/** Maximum characters of a text in large letters, and of JSON. */
const [MAX_STAT, MAX_JSON] = [40, 100_000];

export function Output({ schema, value, label, picture }: OutputProps): JSX.Element {
  if (typeof value === "string") {
    const isImage = /^https?:/.test(value) && schema?.file?.mediaTypes.every((type) => type.startsWith("image/"));
    if (!isImage && !isPicture(value) && !isFile(value)) {
      return <p class={value.length < MAX_STAT ? "stat" : "prose"}>{value}</p>;
    }
    return (
      <Media key={value} url={value} label={label} before={picture === value ? undefined : picture}>
        <a href={value} download={`${label.replaceAll(" ", "-")}.${extensionOf(mediaTypeOf(value))}`}>
          Save
        </a>
      </Media>
    );
  }
  if (typeof value === "number") return <p class="stat">{numberText(value)}</p>;
  if (typeof value === "boolean") return <p class="stat">{value ? "Yes" : "No"}</p>;
  if (value === null) return <small>nothing</small>;
  const bars = barsOf(value);
  if (bars !== undefined) return <Bars values={bars} />;
  if (isList(value) && firstText(value, isFile) !== undefined) {
    return (
      <ol class="grid">
        {value.slice(0, MAX_ITEMS).map((each, i) => (
          <li key={i}>
            <Output schema={schema?.items} value={each} label={`${label} ${i + 1}`} />
          </li>
        ))}
        {value.length > MAX_ITEMS && <li>and {value.length - MAX_ITEMS} more</li>}
      </ol>
    );
  }
  if (!isObject(value)) {
    const isNumbers = value.every((each) => typeof each === "number");
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it may scroll, also by keys
    return <pre tabIndex={0}>{JSON.stringify(value, null, isNumbers ? 0 : 2).slice(0, MAX_JSON)}</pre>;
  }
  const members = Object.entries(value).filter(([name]) => !schema?.fields.get(name)?.isHidden);
  return (
    <dl>
      {members.map(([name, member]) => {
        const field = schema?.fields.get(name);
        const title = field?.title ?? titleOf(name);
        return (
          <div key={name}>
            <dt>{title}</dt>
            <dd>
              <Output schema={field} value={member} label={title} picture={picture} />
            </dd>
          </div>
        );
      })}
    </dl>
  );
}

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}

/** The numbers of a short list, or scores from 0 to 1 by name; undefined for other values. */
function barsOf(value: readonly Json[] | JsonObject): readonly (readonly [string, number])[] | undefined {
  const members = Object.entries(value);
  const numbers = members.flatMap(([name, each]) => (typeof each === "number" ? [[name, each] as const] : []));
  if (numbers.length < members.length || numbers.length === 0 || numbers.length > MAX_BARS) return undefined;
  const isScores = numbers.length > 2 && numbers.every(([, each]) => each >= 0 && each <= 1);
  return isList(value) || isScores ? numbers : undefined;
}
