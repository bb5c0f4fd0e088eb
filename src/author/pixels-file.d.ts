/** Path of the native image addon. In a compiled executable, the addon's file is embedded. */
declare module "#pixels" {
  const path: string;
  export default path;
}
