/** The whole that `$ref` leads into. */
import { createContext } from "preact";
import type { JsonSchema } from "./schema.ts";

export const RootSchema = createContext<JsonSchema>({});
