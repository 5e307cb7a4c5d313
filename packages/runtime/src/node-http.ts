import type * as Http from 'node:http';
import { createRequire } from 'node:module';

/**
 * Node's HTTP module. An ES import of it reads all of its exports, and those of WebSockets load a library that takes 5 MB
 * of each process.
 */
export const http: typeof Http = createRequire(import.meta.url)('node:http');
