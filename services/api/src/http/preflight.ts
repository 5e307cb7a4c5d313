import type { RequestHandler } from 'express';

const HEADERS = {
  'access-control-allow-origin': '*',
  'access-control-allow-methods': 'POST',
  'access-control-allow-headers': 'content-type',
  'access-control-max-age': '86400',
};

/** A browser's question whether a page of another origin may ask (Fetch, CORS-preflight request). */
export const answerPreflight: RequestHandler = (_request, response) => {
  response.writeHead(204, HEADERS).end();
};
