import express, { type Router } from 'express';
import { readFiles, sendFile } from './pages.ts';
import { notFound } from './route.ts';

/**
 * Creates the router of the runbooks, to which the alerts link. They are public texts, so it needs no session.
 *
 * @param folder its Markdown files, read once: `/runbooks/NAME` is NAME.md
 */
export async function createRunbooks(folder: string): Promise<Router> {
  const files = await readFiles(folder);
  return express.Router().get('/runbooks/:name', (request, response) => {
    const file = files.get(`/${request.params.name}.md`);
    if (file !== undefined) return sendFile(request, response, file);
    const { status, code, message: error } = notFound();
    response.status(status).json({ code, error });
  });
}
