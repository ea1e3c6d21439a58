/** What the examples need of Node, so that no package is needed to check them. */
declare const process: { env: Record<string, string | undefined> };
