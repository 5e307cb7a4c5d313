import { MantineProvider } from '@mantine/core';
import './theme/mantine.css';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { queryClient } from './api/query-client.ts';
import { ConfirmDialog } from './parts/confirm.tsx';
import { Toasts } from './parts/toasts.tsx';
import { router } from './router.tsx';
import './theme/base.css';
import { cssVariablesResolver, theme } from './theme/theme.ts';

const root = document.getElementById('root');
if (root === null) throw new Error('index.html has no element with the id root');

createRoot(root).render(
  <StrictMode>
    <MantineProvider
      theme={theme}
      cssVariablesResolver={cssVariablesResolver}
      defaultColorScheme="auto"
    >
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router} />
        <ConfirmDialog />
        <Toasts />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
