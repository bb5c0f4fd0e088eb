/** Files that are imported for their path, which in a compiled executable lies inside it. */
declare module "#swagger-ui/swagger-ui-bundle.js" {
  const path: string;
  export default path;
}
declare module "#swagger-ui/swagger-ui.css" {
  const path: string;
  export default path;
}
declare module "#page/page.js" {
  const path: string;
  export default path;
}
declare module "#page/page.css" {
  const path: string;
  export default path;
}
