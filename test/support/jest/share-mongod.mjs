import { shareMongod } from '../mongod-server.ts';
import { onRunComplete } from './shared-servers.ts';

/** Starts the mongod that test files share: each has databases of its own. */
export default async () => onRunComplete(await shareMongod());
