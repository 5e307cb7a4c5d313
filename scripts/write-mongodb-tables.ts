import { readFileSync, writeFileSync } from 'node:fs';
import { updateMongodbTables } from './mongodb-tables.ts';

const page = new URL('../docs/scaling.md', import.meta.url);
writeFileSync(page, updateMongodbTables(readFileSync(page, 'utf8')));
