// Two writers of one thing: the later one sees what the earlier one saved, and loses nothing that is typed.
import { Button } from '@mantine/core'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { isStale, type Tagged } from '../api/lists'

export interface ConflictState<Body> {
  /** What the next change names. */
  readonly tag: string
  /** What another writer saved; null: nothing that is known. */
  readonly theirs: Tagged<Body> | null
  /** Do it with the tag; a stale tag is answered with what there is now. */
  guard<Answer>(act: (tag: string) => Promise<Answer>): Promise<Answer>
  /** The next change is one of what there is now. */
  accept(tag: string): void
}

/** Follow the tag of a thing that is changed. `read` answers null where the thing is gone. */
export function useConflict<Body>(first: string, read: () => Promise<Tagged<Body> | null>): ConflictState<Body> {
  const [tag, setTag] = useState(first)
  const [theirs, setTheirs] = useState<Tagged<Body> | null>(null)
  return {
    tag,
    theirs,
    accept: setTag,
    async guard(act) {
      try {
        return await act(tag)
      } catch (error) {
        if (isStale(error)) setTheirs(await read())
        throw error
      }
    },
  }
}

interface ConflictProps<Body> {
  readonly error: unknown
  readonly state: ConflictState<Body>
  /** What there is now, in one sentence. */
  words(body: Body): string
  /** Put their values into the fields. */
  take(body: Body): void
}

export function Conflict<Body>({ error, state, words, take }: ConflictProps<Body>) {
  const { t } = useTranslation('shell')
  const { tag, theirs } = state
  if (!isStale(error)) return null
  if (theirs === null) {
    return (
      <p className="small" role="status">
        {t('conflictGone')}
      </p>
    )
  }
  return (
    <div role="status" className="small">
      <p>{words(theirs.body)}</p>
      {theirs.tag === tag ? (
        <p>{t('saveAgain')}</p>
      ) : (
        <div className="row wrap gap">
          <Button
            size="xs"
            onClick={() => {
              take(theirs.body)
              state.accept(theirs.tag)
            }}
          >
            {t('takeTheirs')}
          </Button>
          <Button size="xs" variant="default" onClick={() => state.accept(theirs.tag)}>
            {t('keepMine')}
          </Button>
        </div>
      )}
    </div>
  )
}
