/* setup.h - from settings to data, task and the sizes of a model.
 *
 * Training, `plan` and `bench`, and the commands and functions that evaluate or generate call it. The sizes come from
 * model.init (a model directory), or from the keys of `model` and from the data. It allocates no model: that is
 * engine/model_state.h. */
#ifndef LVN_SETUP_H
#define LVN_SETUP_H

#include "model_io/model_setup.h"
#include "settings/settings.h"

/* Download data.url if data.path does not exist: to data.path, but if only the settings of a run name that, an
 * evaluation downloads to the cache (*cached, to be freed, else NULL), and all else (ARG) only below the run's folder
 * and the current one. */
enum lvn_status lvn_model_setup_download(const struct levin_settings *s, bool evaluates, char **cached) LVN_CHECKED;

/* Open the data (after downloading data.url, if data.path does not exist) and determine the sizes. Model, task and data
 * that do not match are refused before anything is downloaded or opened. model: a program's own; NULL: settings'
 * model.kind. trained: the model of the run that continues, whose classes labels must have; NULL: none. Borrowed.
 * Always call lvn_model_setup_close(). */
enum lvn_status lvn_model_setup_open(struct lvn_model_setup *m, const struct levin_settings *s,
                                     const struct lvn_model *model, const struct lvn_model_config *trained) LVN_CHECKED;
/* The same without training: splits may be short, and the test split is opened, too. texts: used instead of the data;
 * NULL: none. */
enum lvn_status lvn_model_setup_evaluation(struct lvn_model_setup *m, const struct levin_settings *s,
                                           const struct lvn_model *model, const struct lvn_new_texts *texts,
                                           const struct lvn_model_config *trained) LVN_CHECKED;
/* The same for `plan` and `bench`, which do not need the data: if they cannot be opened, m->data stays NULL and the
 * vocabulary, if not given, is the usual one of such data. A published model that is not on this machine has its
 * published sizes, and model.init may be a folder with a config.json and no weights. Nothing is downloaded. */
enum lvn_status lvn_model_setup_sizes(struct lvn_model_setup *m, const struct levin_settings *s,
                                      const struct lvn_model *model) LVN_CHECKED;
/* Are the data on this machine, or generated? */
bool lvn_model_setup_has_data(const struct levin_settings *s);
/* The model of settings' model.init alone, without data. */
enum lvn_status lvn_model_setup_loaded(struct lvn_model_setup *m, const struct levin_settings *s) LVN_CHECKED;
/* For new texts: sets the keys of data and task in s, which are otherwise unused. */
enum lvn_status lvn_model_setup_prediction(struct lvn_model_setup *m, struct levin_settings *s,
                                           const struct lvn_new_texts *texts) LVN_CHECKED;
/* The split that is evaluated. */
enum lvn_split_id lvn_model_setup_split(const struct lvn_model_setup *m, const struct levin_settings *s);
/* The number, or fraction, of its batches that is evaluated, also for gradients; 0: all. */
struct lvn_amount lvn_model_setup_limit(const struct levin_settings *s, bool gradients);

#endif
