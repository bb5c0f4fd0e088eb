/** zod as model files see it: `z.object` refuses unknown fields at every depth; `z.looseObject` is the way to allow them. */
export * from "zod";
export { strictObject as object } from "zod";
