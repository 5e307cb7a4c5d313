import { lend } from './shared-servers.ts';

export default () => lend('killable');
