import { lazy, Suspense, useState } from 'react';
import { SavedFiltersButton } from './saved-filters-button.tsx';

const SavedFiltersMenu = lazy(async () => ({
  default: (await import('./saved-filters-menu.tsx')).SavedFiltersMenu,
}));

/** Shows the filters of a page that this browser has saved, and saves the current one. The menu is loaded when it opens. */
export function SavedFilters({ page }: { page: string }) {
  const [isOpened, setIsOpened] = useState(false);
  if (!isOpened) return <SavedFiltersButton onClick={() => setIsOpened(true)} />;
  return (
    <Suspense fallback={<SavedFiltersButton />}>
      <SavedFiltersMenu page={page} />
    </Suspense>
  );
}
