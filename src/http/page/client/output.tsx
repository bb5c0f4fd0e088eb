/** Shows an output by its type: as a number, text, file, chart, table or tree. */
import type { JSX } from "preact";
import type { SchemaNode } from "../../../base/schemas/json-schema.ts";
import { Compare } from "./compare.tsx";
import { familyOf } from "./file-kind.ts";
import { JsonTree } from "./json-tree.tsx";
import { Download, Media } from "./media.tsx";
import { Bars, Plot } from "./numbers.tsx";
import { isTable, Table } from "./table.tsx";
import { fileIn, isList, isNumbers, isObject, isPicture, type Json, numberText, titleOf } from "./value.ts";

interface OutputProps {
  readonly schema: SchemaNode | undefined;
  readonly value: Json;
  readonly label: string;
  /** The picture in the input, which is laid over a picture in the output for comparison; undefined without one. */
  readonly picture: string | undefined;
}

/** Maximum numbers of a list that are shown as bars. Longer lists are shown as a plot. */
const MAX_BARS = 24;
/** Maximum items that are shown of a list whose items are or contain files. */
const MAX_ITEMS = 100;

export function Output({ schema, value, label, picture }: OutputProps): JSX.Element {
  if (typeof value === "string") return <Text {...{ value, label, picture, schema }} />;
  if (typeof value === "number") return <p class="stat">{numberText(value)}</p>;
  if (typeof value === "boolean") return <p class="stat">{value ? "Yes" : "No"}</p>;
  if (value === null) return <p class="about">nothing</p>;
  if (isNumbers(value)) {
    return value.length > MAX_BARS ? (
      <Plot values={value} label={label} />
    ) : (
      <Bars entries={[...value.entries()]} label={label} />
    );
  }
  if (isScores(value)) return <Bars entries={Object.entries(value)} label={label} />;
  if (isList(value) && fileIn(value) !== undefined) return <Items {...{ value, label, schema }} />;
  if (isTable(value)) return <Table rows={value} label={label} />;
  if (isObject(value)) {
    const members = Object.entries(value).map(([name, each]) => ({
      name,
      value: each,
      schema: schema?.fields.get(name),
    }));
    return (
      <dl class="members">
        {members
          .filter((member) => member.schema?.isHidden !== true)
          .map(({ name, ...member }) => {
            const title = member.schema?.title ?? titleOf(name);
            return (
              <div key={name}>
                <dt>{title}</dt>
                <dd>
                  <Output {...member} label={title} picture={picture} />
                </dd>
              </div>
            );
          })}
      </dl>
    );
  }
  return <JsonTree value={value} />;
}

interface ItemsProps extends Pick<OutputProps, "schema" | "label"> {
  readonly value: readonly Json[];
}

function Items({ value, label, schema }: ItemsProps) {
  return (
    <>
      <ol class="items">
        {value.slice(0, MAX_ITEMS).map((each, i) => (
          <li key={i}>
            <Output schema={schema?.items} value={each} label={`${label} ${i + 1}`} picture={undefined} />
          </li>
        ))}
      </ol>
      {value.length > MAX_ITEMS && <p class="about">and {value.length - MAX_ITEMS} more</p>}
    </>
  );
}

function isScores(value: Json): value is Readonly<Record<string, number>> {
  if (!isObject(value)) return false;
  const members = Object.values(value);
  return (
    members.length > 2 &&
    members.length <= MAX_BARS &&
    members.every((each) => typeof each === "number" && each >= 0 && each <= 1)
  );
}

function Text({ value, label, picture, schema }: OutputProps & { readonly value: string }) {
  const isImage =
    isPicture(value) || (schema?.file !== undefined && familyOf(schema.file) === "image" && /^https?:/.test(value));
  const isFile = value.startsWith("data:");
  if (!isImage && !isFile) return value.length < 40 ? <p class="stat">{value}</p> : <p class="prose">{value}</p>;
  return (
    <div class="media">
      {isImage && picture !== undefined && picture !== value ? (
        <Compare before={picture} after={value} label={label} />
      ) : (
        <Media url={value} label={label} isPicture={isImage} />
      )}
      <Download url={value} name={label.toLowerCase().replaceAll(" ", "-")} />
    </div>
  );
}
