import type { AppDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import { AdminError } from './admin-error.ts';

/**
 * Finds an app.
 *
 * @throws AdminError APP_NOT_FOUND
 */
export async function requireApp({ apps }: Pick<Store, 'apps'>, id: string): Promise<AppDocument> {
  const app = await apps.find(id);
  if (app === undefined) throw new AdminError('APP_NOT_FOUND', `There is no app ${id}.`);
  return app;
}
